"""The engine without a wire: calls share steps, fail alone, and leave nothing behind."""

from __future__ import annotations

import math
import threading
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from unit.model import models
from unit.server.engines import ALL, LIMITS, MODEL, generated, prefill, run
from zeroulp.model.compute_team import ComputeTeam
from zeroulp.model.context import NoGrad
from zeroulp.model.errors import (
    CallCancelled,
    ContextFull,
    DeadlinePassed,
    Draining,
    NonFinite,
    QueueFull,
    SessionUnknown,
    TokenOutOfRange,
)
from zeroulp.model.full_forward import full_forward
from zeroulp.model.parameters import TABLE
from zeroulp.model.sampling import SamplingParameters
from zeroulp.server.engine.calls import (
    Appended,
    GenerateCall,
    GenerationEvent,
)
from zeroulp.server.engine.engine import Engine
from zeroulp.server.engine.event_channel import EventChannel
from zeroulp.server.engine.stop_signal import StopSignal
from zeroulp.server.jobs.decode import DecodeJob
from zeroulp.server.jobs.generate import GenerateJob
from zeroulp.server.jobs.prefill import PrefillJob
from zeroulp.server.jobs.session_calls import CloseSessionJob, GetSessionJob


def rows(appended: Appended) -> bytes:
    assert appended.logits is not None
    return appended.logits.values.tobytes()


def wanted_bits(ids: list[int], start: int = 0) -> bytes:
    return full_forward(MODEL, NoGrad(ComputeTeam(1)), ids)[start:].tobytes()


def test_prefill_decode_look_and_close(engine: Engine, rng: np.random.Generator) -> None:
    ids = rng.integers(0, 29, 60).tolist()
    opened = prefill(engine, ids[:40])
    assert (opened.position, opened.ids) == (40, tuple(ids[:40]))
    assert rows(opened) == wanted_bits(ids[:40])
    more = run(engine, DecodeJob(StopSignal(), opened.session_id, tuple(ids[40:]), ALL))
    assert more.position == 60
    assert rows(more) == wanted_bits(ids, 40)
    state = run(engine, GetSessionJob(StopSignal(), opened.session_id))
    assert state.ids == tuple(ids)
    assert state.total_work == opened.work + more.work == more.total_work
    assert run(engine, CloseSessionJob(StopSignal(), opened.session_id)).position == 60
    with pytest.raises(SessionUnknown):
        run(engine, GetSessionJob(StopSignal(), opened.session_id))


def test_calls_at_once_have_the_bits_of_calls_alone(engine: Engine, rng: np.random.Generator) -> None:
    prompts = [rng.integers(0, 29, int(length)).tolist() for length in rng.integers(1, 70, 12)]
    jobs = [PrefillJob(StopSignal(), tuple(ids), ALL) for ids in prompts]
    for job in jobs:
        engine.submit(job)
    for job, ids in zip(jobs, prompts, strict=True):
        assert rows(job.future.result(60)) == wanted_bits(ids)


def test_calls_on_one_session_take_turns(engine: Engine) -> None:
    opened = prefill(engine, [1])
    jobs = [DecodeJob(StopSignal(), opened.session_id, (n, n), ALL) for n in range(2, 8)]
    for job in jobs:
        engine.submit(job)
    assert [job.future.result(60).position for job in jobs] == [3, 5, 7, 9, 11, 13]
    assert rows(jobs[-1].future.result()) == wanted_bits([1, *(n for n in range(2, 8) for _ in "ab")], 11)


@pytest.mark.parametrize(
    ("ids", "error"), [((1, 29), TokenOutOfRange), ((1,) * 129, ContextFull), ((-1,), TokenOutOfRange)]
)
def test_refusals_change_nothing(engine: Engine, ids: tuple[int, ...], error: type[Exception]) -> None:
    opened = prefill(engine, [5, 6])
    with pytest.raises(error):
        run(engine, PrefillJob(StopSignal(), ids, ALL))
    with pytest.raises(error):
        run(engine, DecodeJob(StopSignal(), opened.session_id, ids, ALL))
    after = run(engine, DecodeJob(StopSignal(), opened.session_id, (7,), ALL))
    assert rows(after) == wanted_bits([5, 6, 7], 2)


def test_cancelled_and_late_calls(engine: Engine) -> None:
    opened = prefill(engine, [5, 6])
    stop = StopSignal()
    stop.cancel()
    with pytest.raises(CallCancelled):
        run(engine, DecodeJob(stop, opened.session_id, (7,), ALL))
    with pytest.raises(DeadlinePassed):
        run(engine, DecodeJob(StopSignal(0.0), opened.session_id, (7,), ALL))
    assert run(engine, GetSessionJob(StopSignal(), opened.session_id)).position == 2


def test_a_call_that_is_cancelled_at_the_last_moment_is_not_committed(engine: Engine) -> None:
    class Late(DecodeJob):
        def take(self, *results: Any) -> None:
            self.stop.cancel()
            super().take(*results)

    opened = prefill(engine, [5, 6])
    with pytest.raises(CallCancelled):
        run(engine, Late(StopSignal(), opened.session_id, (7,), ALL))
    assert run(engine, GetSessionJob(StopSignal(), opened.session_id)).ids == (5, 6)


def test_a_poisoned_call_fails_alone() -> None:
    model = models.with_gains(models.SMALL, 51)
    table = model.parameters[TABLE].values()
    table[9, 0] = 1e300  # overflows as soon as it is normalised; its own logits are finite
    model.parameters[TABLE].set_value(table)
    good = list(range(1, 9)) * 3
    want = full_forward(model, NoGrad(ComputeTeam(1)), good).tobytes()
    engine = Engine(model, None, LIMITS, ComputeTeam(1))
    try:
        jobs = [PrefillJob(StopSignal(), tuple(ids), ALL) for ids in (good, [9], good, [3, 9, 3], good)]
        for job in jobs:
            engine.submit(job)
        for index in (1, 3):
            error = jobs[index].future.exception(60)
            assert isinstance(error, NonFinite)
            assert error.metadata["stage"] == "attention_norm"
        for index in (0, 2, 4):
            assert rows(jobs[index].future.result(60)) == want
    finally:
        engine.stop()


def test_the_limit_on_calls(engine: Engine) -> None:
    small = Engine(MODEL, None, replace(LIMITS, max_calls=1), ComputeTeam(1))
    try:
        channel = EventChannel[GenerationEvent](1)  # its reader is slow, so the call stays
        job = GenerateJob(StopSignal(), GenerateCall(None, (1,), 100, SamplingParameters(), 1), channel)
        job.stop.on_cancel = small.wake
        small.submit(job)
        with pytest.raises(QueueFull) as refused:
            small.submit(PrefillJob(StopSignal(), (1,), ALL))
        assert refused.value.metadata == {"max_calls": "1"}
        job.stop.cancel()
        assert job.future.exception(60)
    finally:
        small.stop()


def test_draining(engine: Engine) -> None:
    opened = prefill(engine, [1, 2])
    job = DecodeJob(StopSignal(), opened.session_id, (3,) * 50, ALL)
    engine.submit(job)
    assert engine.drain(60)
    assert job.future.result(0).position == 52
    with pytest.raises(Draining):
        engine.submit(PrefillJob(StopSignal(), (1,), ALL))
    engine.stop()
    assert not engine.alive
    with pytest.raises(Draining):
        engine.submit(PrefillJob(StopSignal(), (1,), ALL))


def test_stopping_fails_what_is_in_flight() -> None:
    engine = Engine(MODEL, None, LIMITS, ComputeTeam(1))
    call, channel = GenerateCall(None, (1,), 100, SamplingParameters(), 1), EventChannel[GenerationEvent](1)
    job = GenerateJob(StopSignal(), call, channel)
    engine.submit(job)
    assert not engine.drain(0.05)
    engine.stop()
    assert isinstance(job.future.exception(60), Draining)


def test_an_error_that_nobody_planned_ends_its_own_call(engine: Engine) -> None:
    class Broken(PrefillJob):
        def take(self, *_: object) -> None:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run(engine, Broken(StopSignal(), (1, 2), ALL))
    assert rows(prefill(engine, [1, 2])) == wanted_bits([1, 2])


def test_calls_from_many_threads(engine: Engine) -> None:
    want, wrong = wanted_bits([2, 4, 6]), []

    def call() -> None:
        for _ in range(20):
            opened = prefill(engine, [2, 4, 6])
            if rows(opened) != want:
                wrong.append(opened)
            run(engine, CloseSessionJob(StopSignal(), opened.session_id))

    threads = [threading.Thread(target=call) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert wrong == []


def test_nothing_is_left_after_calls_of_every_kind(engine: Engine) -> None:
    for _ in range(3):
        opened = prefill(engine, [1] * 40)
        with pytest.raises(TokenOutOfRange):
            run(engine, PrefillJob(StopSignal(), (1, 99), ALL))
        with pytest.raises(DeadlinePassed):
            run(engine, DecodeJob(StopSignal(0.0), opened.session_id, (1,) * 40, ALL))
        run(engine, CloseSessionJob(StopSignal(), opened.session_id))
        generated(engine, GenerateCall(None, (1,), 40, SamplingParameters(), 1, close_session=True))
    hall = engine._hall
    engine.stop()
    hall.pool.check_integrity([])
    assert hall.pool.free == hall.pool.capacity
    assert len(hall.sessions) == 0
    assert hall.sessions._places == 0
    assert math.isfinite(hall.pool.used_bytes)
