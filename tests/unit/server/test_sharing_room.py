"""Sharing takes no room from a running call, and a call that fails gives back what it shared."""

from __future__ import annotations

from typing import Any

import pytest

from unit.model import models
from unit.server.engines import (
    ALL,
    GREEDY,
    LIMITS,
    MODEL,
    PROMPT,
    Unread,
    close,
    decode,
    footprint,
    fork,
    full,
    prefill,
    rows,
    run,
    truncate,
)
from zeroulp.model.compute_team import ComputeTeam
from zeroulp.model.context import NoGrad
from zeroulp.model.errors import (
    CacheBudget,
    CallCancelled,
    DeadlinePassed,
    NonFinite,
)
from zeroulp.model.full_forward import full_forward
from zeroulp.model.parameters import TABLE
from zeroulp.model.work import work_of
from zeroulp.server.engine.calls import FinishReason, GenerateCall, Scope, Wanted
from zeroulp.server.engine.engine import Engine
from zeroulp.server.engine.event_channel import EventChannel
from zeroulp.server.engine.stop_signal import StopSignal
from zeroulp.server.jobs.decode import DecodeJob
from zeroulp.server.jobs.generate import GenerateJob
from zeroulp.server.jobs.job import Job
from zeroulp.server.jobs.prefill import PrefillJob

NONE = Wanted(Scope.NONE)


def test_a_running_generation_keeps_its_room(four_blocks: Engine) -> None:
    engine, prompt = four_blocks, PROMPT[:40]
    unread = Unread(engine, GenerateCall(None, tuple(prompt), 50, GREEDY, 0))  # 90 positions, three blocks
    hit = prefill(engine, prompt)  # the fourth, beside one of the generation's
    assert hit.work.reused_tokens == 32
    assert engine._hall.pool.free == 0
    with pytest.raises(CacheBudget):
        decode(engine, hit.session_id, [1] * 25)
    close(engine, hit.session_id)
    hit = prefill(engine, prompt)
    finished = unread.read()[-1]
    assert (finished.reason, finished.position) == (FinishReason.LENGTH, 90)
    assert finished.work == work_of(MODEL.configuration, 0, 40, prefill=True) + work_of(
        MODEL.configuration, 40, 50, prefill=False
    )
    assert rows(hit) == full(prompt)


def test_a_copy_is_paid_for_when_a_call_starts(four_blocks: Engine) -> None:
    engine = four_blocks
    opened = prefill(engine, PROMPT[:40])
    twin = fork(engine, opened.session_id)
    assert engine._hall.pool.free == 2
    # two blocks beyond the end, and one for the copy
    with pytest.raises(CacheBudget) as refused:
        run(
            engine,
            GenerateJob(StopSignal(), GenerateCall(twin.session_id, (), 57, GREEDY, 0), EventChannel(99)),
        )
    assert refused.value.metadata["needed_blocks"] == "3"
    assert engine._hall.pool.free == 2
    unread = Unread(engine, GenerateCall(twin.session_id, (), 56, GREEDY, 0))
    assert engine._hall.pool.free == 0
    assert unread.read()[-1].position == 96
    assert rows(decode(engine, opened.session_id, PROMPT[40:64])) == full(PROMPT[:64])[-24 * 29 * 8 :]


def test_a_cut_into_a_block_that_another_holds(four_blocks: Engine) -> None:
    engine = four_blocks
    opened = prefill(engine, PROMPT[:65])
    hit = prefill(engine, PROMPT[:65])
    assert (hit.work.reused_tokens, engine._hall.pool.free) == (64, 0)
    assert truncate(engine, opened.session_id, 40).cache_bytes == 2 * engine._hall.pool.block_bytes
    assert engine._hall.pool.free == 1
    unread = Unread(engine, GenerateCall(opened.session_id, (), 24, GREEDY, 0))
    assert engine._hall.pool.free == 0
    assert unread.read()[-1].position == 64
    assert rows(decode(engine, hit.session_id, [5])) == full([*PROMPT[:65], 5])[-29 * 8 :]
    close(engine, hit.session_id)
    assert engine._hall.pool.free == 2
    assert rows(prefill(engine, PROMPT[:40])) == full(PROMPT[:40])
    engine._hall.check_integrity()


class Late:
    """A call that is given up when its results are there."""

    def take(self, *results: Any) -> None:
        self.stop.cancel()  # type: ignore[attr-defined]
        super().take(*results)  # type: ignore[misc]


class LatePrefill(Late, PrefillJob):
    pass


class LateGenerate(Late, GenerateJob):
    pass


class LateDecode(Late, DecodeJob):
    pass


def test_failed_calls_give_reused_blocks_back(four_blocks: Engine) -> None:
    engine = four_blocks
    opened = prefill(engine, PROMPT[:65])
    before, prompt = footprint(engine), tuple(PROMPT[:65])
    generate = GenerateCall(None, prompt, 10, GREEDY, 0)
    long = GenerateCall(None, prompt, 40, GREEDY, 0)  # two blocks beside the shared ones
    calls: list[tuple[Job, type[Exception]]] = [
        (PrefillJob(StopSignal(), tuple(PROMPT[:97]), NONE), CacheBudget),
        (GenerateJob(StopSignal(), long, EventChannel(99)), CacheBudget),
        (LatePrefill(StopSignal(), prompt, ALL), CallCancelled),
        (LateGenerate(StopSignal(), generate, EventChannel(99)), CallCancelled),
        (PrefillJob(StopSignal(0.0), prompt, ALL), DeadlinePassed),
        (GenerateJob(StopSignal(0.0), generate, EventChannel(99)), DeadlinePassed),
    ]
    for job, error in calls:
        with pytest.raises(error):
            run(engine, job)
        assert footprint(engine) == before
    assert rows(decode(engine, opened.session_id, [3])) == full([*PROMPT[:65], 3])[-29 * 8 :]


def test_failed_calls_give_a_copied_block_back(four_blocks: Engine) -> None:
    engine = four_blocks
    opened = prefill(engine, PROMPT[:40])
    twin = fork(engine, opened.session_id).session_id
    before = footprint(engine)
    calls: list[tuple[Job, type[Exception]]] = [
        (LateDecode(StopSignal(), twin, (1, 2), ALL), CallCancelled),
        (LateGenerate(StopSignal(), GenerateCall(twin, (), 5, GREEDY, 0), EventChannel(99)), CallCancelled),
        (DecodeJob(StopSignal(), twin, (1,) * 88, ALL), CacheBudget),
    ]
    for job, error in calls:
        with pytest.raises(error):
            run(engine, job)
        assert footprint(engine) == before
    for session in (twin, opened.session_id):
        assert rows(decode(engine, session, [3])) == full([*PROMPT[:40], 3])[-29 * 8 :]


def test_a_poisoned_rest_gives_reused_blocks_back() -> None:
    model = models.with_gains(models.SMALL, 51)
    table = model.parameters[TABLE].values()
    table[28, 0] = 1e300  # overflows as soon as it is normalised; its own logits are finite
    model.parameters[TABLE].set_value(table)
    engine = Engine(model, None, LIMITS, ComputeTeam(1))
    prompt = [token % 28 for token in PROMPT[:40]]
    try:
        opened = prefill(engine, prompt)
        before = footprint(engine)
        bad = (*prompt, 28)
        for job in (
            PrefillJob(StopSignal(), bad, ALL),
            GenerateJob(StopSignal(), GenerateCall(None, bad, 5, GREEDY, 0), EventChannel(99)),
            DecodeJob(StopSignal(), opened.session_id, (28,), ALL),
        ):
            with pytest.raises(NonFinite):
                run(engine, job)
            assert footprint(engine) == before
        want = full_forward(model, NoGrad(ComputeTeam(1)), prompt).tobytes()
        assert rows(prefill(engine, prompt)) == want
    finally:
        engine.stop()
