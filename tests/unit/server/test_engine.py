"""The engine without a wire: calls share steps, fail alone, and leave nothing behind."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from unit.model import models
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
from zeroulp.model.sampling import SamplingParameters, draw
from zeroulp.server.engine.calls import (
    Appended,
    Finished,
    FinishReason,
    GenerateCall,
    Generated,
    Scope,
    Started,
    Wanted,
)
from zeroulp.server.engine.engine import Engine
from zeroulp.server.engine.event_channel import EventChannel
from zeroulp.server.engine.limits import Limits
from zeroulp.server.engine.stop_signal import StopSignal
from zeroulp.server.jobs.decode import DecodeJob
from zeroulp.server.jobs.generate import GenerateJob
from zeroulp.server.jobs.job import Job
from zeroulp.server.jobs.prefill import PrefillJob
from zeroulp.server.jobs.session_calls import CloseSessionJob, GetSessionJob

LIMITS = Limits(cache_bytes=64 * 1024 * 1024, step_rows=16, shared_step_rows=8)
ALL = Wanted(Scope.ALL)
MODEL = models.with_gains(models.SMALL, 51)


@pytest.fixture
def engine() -> Iterator[Engine]:
    engine = Engine(MODEL, None, LIMITS, ComputeTeam(1))
    yield engine
    engine.stop()


def run(engine: Engine, job: Job) -> Any:
    job.stop.on_cancel = engine.wake
    engine.submit(job)
    return job.future.result(60)


def prefill(engine: Engine, ids: list[int]) -> Appended:
    return run(engine, PrefillJob(StopSignal(), tuple(ids), ALL))  # type: ignore[no-any-return]


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


def generated(engine: Engine, call: GenerateCall) -> list[Any]:
    channel = EventChannel(LIMITS.generate_ahead)
    channel.on_room = engine.wake
    engine.submit(GenerateJob(StopSignal(), call, channel))
    return list(channel)


def naive_generation(ids: list[int], count: int, sampling: SamplingParameters, seed: int) -> list[int]:
    context, tokens = NoGrad(ComputeTeam(1)), list(ids)
    for _ in range(count):
        tokens.append(draw(full_forward(MODEL, context, tokens)[-1], sampling, seed, tokens, len(ids)))
    return tokens[len(ids) :]


@pytest.mark.parametrize("sampling", [SamplingParameters(temperature=0.0), SamplingParameters(top_p=0.9)])
def test_generation_is_the_loop_of_full_forwards(engine: Engine, sampling: SamplingParameters) -> None:
    call = GenerateCall(None, (3, 1, 4), 30, sampling, 7, log_probabilities=True)
    started, *tokens, finished = generated(engine, call)
    assert isinstance(started, Started)
    assert started.position == 3
    assert all(isinstance(event, Generated) for event in tokens)
    assert [event.token for event in tokens] == naive_generation([3, 1, 4], 30, sampling, 7)
    assert [event.position for event in tokens] == list(range(3, 33))
    assert isinstance(finished, Finished)
    assert (finished.reason, finished.generated, finished.position) == (FinishReason.LENGTH, 30, 33)
    state = run(engine, GetSessionJob(StopSignal(), started.session_id))
    assert list(state.ids) == [3, 1, 4, *(event.token for event in tokens)]
    # the call committed exactly what it told, and the next one goes on from there
    again = generated(engine, replace(call, session_id=started.session_id, ids=(), max_new_tokens=2))
    assert [event.token for event in again[1:-1]] == naive_generation(list(state.ids), 2, sampling, 7)


def test_a_generation_ends_where_the_positions_end(engine: Engine) -> None:
    events = generated(engine, GenerateCall(None, (1,) * 120, None, SamplingParameters(), 1))
    assert (events[-1].reason, events[-1].position, len(events)) == (FinishReason.CONTEXT_FULL, 128, 10)


def test_a_generation_that_overflows_fails_with_the_session_as_it_was_told(engine: Engine) -> None:
    sampling = SamplingParameters(presence_penalty=-1.7e308, frequency_penalty=-1.7e308, min_p=0.5)
    channel = EventChannel(8)
    engine.submit(GenerateJob(StopSignal(), GenerateCall(None, (1,), 5, sampling, 1), channel))
    reader = iter(channel)
    started, first = next(reader), next(reader)
    with pytest.raises(NonFinite, match="penalties"):
        next(reader)
    assert isinstance(started, Started)
    assert isinstance(first, Generated)
    state = run(engine, GetSessionJob(StopSignal(), started.session_id))
    assert state.ids == (1, first.token)


def test_a_reader_that_leaves_stops_the_generation(engine: Engine) -> None:
    channel = EventChannel(4)
    channel.on_room = engine.wake
    job = GenerateJob(StopSignal(), GenerateCall(None, (1,), 100, SamplingParameters(), 1), channel)
    job.stop.on_cancel = engine.wake
    engine.submit(job)
    reader = iter(channel)
    started = next(reader)
    assert isinstance(started, Started)
    job.stop.cancel()
    assert isinstance(job.future.exception(60), CallCancelled)
    state = run(engine, GetSessionJob(StopSignal(), started.session_id))
    assert 1 <= state.position <= 1 + 4 + 2  # no further ahead than the channel lets it
    assert (
        state.cache_bytes
        == run(engine, GetSessionJob(StopSignal(), prefill(engine, [1]).session_id)).cache_bytes
    )


def test_the_limit_on_calls(engine: Engine) -> None:
    small = Engine(MODEL, None, replace(LIMITS, max_calls=1), ComputeTeam(1))
    try:
        channel = EventChannel(1)  # its reader is slow, so the call stays
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
    job = GenerateJob(StopSignal(), GenerateCall(None, (1,), 100, SamplingParameters(), 1), EventChannel(1))
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
