"""Hits, forks and cuts: as if alone, in their turn, and without a stall for neighbours."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from unit.model import models
from unit.server.engines import (
    ALL,
    GREEDY,
    LIMITS,
    PROMPT,
    Unread,
    close,
    decode,
    footprint,
    fork,
    full,
    generated,
    prefill,
    rows,
    run,
    truncate,
)
from zeroulp.model.compute_team import ComputeTeam
from zeroulp.model.context import NoGrad
from zeroulp.model.errors import (
    DeadlinePassed,
    InvalidArgument,
    ParametersChanged,
    SessionLimit,
)
from zeroulp.model.full_forward import full_forward
from zeroulp.model.kernels.cache_rows import BLOCK
from zeroulp.model.work import Work
from zeroulp.server.engine.calls import GenerateCall, Scope, Wanted
from zeroulp.server.engine.engine import Engine
from zeroulp.server.engine.event_channel import EventChannel
from zeroulp.server.engine.step import Step
from zeroulp.server.engine.stop_signal import StopSignal
from zeroulp.server.jobs.decode import DecodeJob
from zeroulp.server.jobs.generate import GenerateJob
from zeroulp.server.jobs.prefill import PrefillJob
from zeroulp.server.jobs.session_calls import ForkSessionJob, TruncateSessionJob


def test_a_fork_waits_for_its_turn(engine: Engine) -> None:
    unread = Unread(engine, GenerateCall(None, (1, 2, 3), 40, GREEDY, 0))
    jobs = [
        ForkSessionJob(StopSignal(), unread.session_id),
        TruncateSessionJob(StopSignal(), unread.session_id, 2),
        ForkSessionJob(StopSignal(), unread.session_id),
    ]
    for job in jobs:
        job.stop.on_cancel = engine.wake
        engine.submit(job)
    prefill(engine, [9])  # when this is answered, the others have been looked at
    assert not any(job.future.done() for job in jobs)
    assert unread.read()[-1].position == 43
    assert [job.future.result(60).position for job in jobs] == [43, 2, 2]


def test_stale_rows_are_neither_reused_nor_forked() -> None:
    model = models.with_gains(models.SMALL, 51)
    engine = Engine(model, None, LIMITS, ComputeTeam(1))
    try:
        old = prefill(engine, PROMPT[:40])
        gain = model.parameters["final_norm.gain"]
        gain.set_value(gain.values() * 2)
        new = prefill(engine, PROMPT[:40])
        assert new.work.reused_tokens == 0
        assert rows(new) == full_forward(model, NoGrad(ComputeTeam(1)), PROMPT[:40]).tobytes()
        assert rows(new) != rows(old)
        again = prefill(engine, PROMPT[:40])
        assert (again.work.reused_tokens, rows(again)) == (32, rows(new))
        before = footprint(engine)
        with pytest.raises(ParametersChanged):
            fork(engine, old.session_id)
        assert footprint(engine) == before
    finally:
        engine.stop()


def test_a_fork_takes_a_place(four_blocks: Engine) -> None:
    opened = prefill(four_blocks, [1, 2])
    forks = [fork(four_blocks, opened.session_id) for _ in range(2)]
    before = footprint(four_blocks)
    with pytest.raises(SessionLimit) as refused:
        fork(four_blocks, opened.session_id)
    assert refused.value.metadata == {"max_sessions": "3"}
    assert footprint(four_blocks) == before
    close(four_blocks, opened.session_id)
    third = fork(four_blocks, forks[0].session_id)
    assert (third.ids, third.total_work) == ((1, 2), Work(reused_tokens=2))


@pytest.mark.parametrize("position", [0, 4, 2**64 - 1])
def test_a_cut_elsewhere_is_refused(engine: Engine, position: int) -> None:
    opened = prefill(engine, [1, 2, 3])
    with pytest.raises(InvalidArgument, match=f"{position}; the session can be cut to 1 up to 3"):
        truncate(engine, opened.session_id, position)
    assert truncate(engine, opened.session_id, 3).ids == (1, 2, 3)


def test_cancelled_forks_and_cuts_change_nothing(engine: Engine) -> None:
    opened = prefill(engine, [1, 2, 3])
    before = footprint(engine)
    for job in (
        ForkSessionJob(StopSignal(0.0), opened.session_id),
        TruncateSessionJob(StopSignal(0.0), opened.session_id, 1),
    ):
        with pytest.raises(DeadlinePassed):
            run(engine, job)
    assert footprint(engine) == before
    assert decode(engine, opened.session_id, [4]).position == 4


def test_stored_rows_are_read_in_chunks_of_a_step(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[list[tuple[int, int]]] = []
    compute = engine._compute

    def watched(step: Step) -> None:
        steps.append([(share.rows, share.wanted_rows) for _, share in step.shares])
        compute(step)

    monkeypatch.setattr(engine, "_compute", watched)
    opened = prefill(engine, PROMPT[:65])
    steps.clear()
    hit = prefill(engine, PROMPT[:65])
    # Alone: 64 stored rows through the head, then the one that is new.
    assert steps == [[(0, 16)]] * 4 + [[(1, 1)]]
    assert (hit.work.reused_tokens, rows(hit)) == (64, rows(opened))
    steps.clear()
    last = run(engine, PrefillJob(StopSignal(), tuple(PROMPT[:65]), Wanted(Scope.LAST)))
    assert steps == [[(1, 1)]]
    assert rows(last) == rows(opened)[-29 * 8 :]
    # A call that waits for its reader keeps the others to the steps that a neighbour may wait for.
    unread = Unread(engine, GenerateCall(None, (1,), 100, GREEDY, 0))
    steps.clear()
    assert rows(prefill(engine, PROMPT[:65])) == rows(opened)
    assert sum(rows for step in steps for rows, _ in step) == 1
    assert sum(wanted for step in steps for _, wanted in step) == 65
    assert all(sum(max(share) for share in step) <= LIMITS.shared_step_rows for step in steps)
    unread.job.stop.cancel()


def test_hits_and_decodes_share_steps(engine: Engine, rng: np.random.Generator) -> None:
    opened = prefill(engine, PROMPT[:100])
    session = prefill(engine, [1]).session_id
    tokens = rng.integers(0, 29, 20).tolist()
    jobs: list[Any] = [PrefillJob(StopSignal(), tuple(PROMPT[:length]), ALL) for length in (33, 64, 97)]
    jobs += [DecodeJob(StopSignal(), session, (token,), ALL) for token in tokens[:8]]
    for job in jobs:
        engine.submit(job)
    for job, length in zip(jobs, (33, 64, 97), strict=False):
        hit = job.future.result(60)
        assert hit.work.reused_tokens == (length - 1) // BLOCK * BLOCK
        assert rows(hit) == rows(opened)[: length * 29 * 8]
    decoded = b"".join(rows(job.future.result(60)) for job in jobs[3:])
    assert decoded == full([1, *tokens[:8]])[29 * 8 :]


def test_a_resumed_generation_ends_with_a_cut(engine: Engine) -> None:
    events = generated(engine, GenerateCall(None, (1, 2, 3), 5, GREEDY, 0))
    session_id, tokens = events[0].session_id, [event.token for event in events[1:-1]]
    with pytest.raises(InvalidArgument):
        truncate(engine, session_id, 9)

    def resumed(position: int) -> Any:
        channel: EventChannel[Any] = EventChannel(99)
        job = GenerateJob(StopSignal(), None, channel, session_id=session_id, resume_position=position)
        engine.submit(job)
        return list(channel)

    assert [event.token for event in resumed(3)[1:-1]] == tokens
    truncate(engine, session_id, 6)
    with pytest.raises(InvalidArgument, match="nothing to resume"):
        resumed(3)
