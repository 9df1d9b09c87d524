"""Values change between steps, and no call sees both. The calls themselves make the swap happen, in order."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from unit.model import models
from unit.server.engines import ALL, LIMITS, generated, prefill, run
from zeroulp.model.compute_team import ComputeTeam
from zeroulp.model.context import NoGrad
from zeroulp.model.errors import CallCancelled, ParametersChanged, QueueFull
from zeroulp.model.full_forward import full_forward
from zeroulp.model.replacement import Replacement
from zeroulp.model.sampling import SamplingParameters
from zeroulp.server.engine.calls import GenerateCall, Scope, ScoreSequence, Wanted
from zeroulp.server.engine.engine import Engine
from zeroulp.server.engine.event_channel import EventChannel
from zeroulp.server.engine.hall import Hall
from zeroulp.server.engine.stop_signal import StopSignal
from zeroulp.server.jobs.decode import DecodeJob
from zeroulp.server.jobs.generate import GenerateJob
from zeroulp.server.jobs.job import Job
from zeroulp.server.jobs.prefill import PrefillJob
from zeroulp.server.jobs.score import ScoreJob
from zeroulp.server.jobs.session_calls import CloseSessionJob, GetSessionJob
from zeroulp.server.jobs.swap import SwapJob

NEW = models.with_gains(models.SMALL, 62)
LONG = tuple(range(28)) * 3
"""Longer than a step."""


@pytest.fixture
def engine() -> Iterator[Engine]:
    engine = Engine(models.with_gains(models.SMALL, 61), None, LIMITS, ComputeTeam(1))
    yield engine
    engine.stop()


def swap(engine: Engine) -> SwapJob:
    return SwapJob(StopSignal(), Replacement(engine._hall.model, NEW), lambda: None)


def swapping_after_the_first_step(kind: type[Job], engine: Engine) -> type[Any]:
    """Return a job that has the swap queued by the results of its own first step."""
    jobs = [swap(engine)]

    class Swapping(kind):  # type: ignore[misc, valid-type]
        def take(self, *results: Any) -> None:
            super().take(*results)
            if jobs:
                engine.submit(jobs.pop())

    return Swapping


def new_bits(ids: tuple[int, ...], start: int = 0) -> bytes:
    return full_forward(NEW, NoGrad(ComputeTeam(1)), list(ids))[start:].tobytes()


def scored(ids: tuple[int, ...]) -> ScoreSequence:
    return ScoreSequence(ids, None, ())


def check_clean(engine: Engine) -> None:
    hall = engine._hall
    hall.pool.check_integrity([opened.session.cache.table.tolist() for opened in hall.sessions])
    assert hall.sessions._places == 0


def test_old_sessions_are_stale_and_can_be_looked_at_and_closed(engine: Engine) -> None:
    opened = prefill(engine, [1, 2, 3])
    state = run(engine, GetSessionJob(StopSignal(), opened.session_id))
    run(engine, swap(engine))
    with pytest.raises(ParametersChanged):
        run(engine, DecodeJob(StopSignal(), opened.session_id, (4,), ALL))
    with pytest.raises(ParametersChanged):
        generated(engine, GenerateCall(opened.session_id, (), 3, SamplingParameters(temperature=0.0), 0))
    assert run(engine, GetSessionJob(StopSignal(), opened.session_id)) == state
    assert run(engine, CloseSessionJob(StopSignal(), opened.session_id)).position == 3
    again = prefill(engine, [1, 2, 3])
    assert again.logits is not None
    assert again.logits.values.tobytes() == new_bits((1, 2, 3))
    run(engine, CloseSessionJob(StopSignal(), again.session_id))
    assert engine._hall.pool.free == engine._hall.pool.capacity


def test_a_decode_in_flight_fails_and_commits_nothing(engine: Engine) -> None:
    opened = prefill(engine, [1])
    kind = swapping_after_the_first_step(DecodeJob, engine)
    with pytest.raises(ParametersChanged, match="while the call was under way"):
        run(engine, kind(StopSignal(), opened.session_id, LONG, ALL))
    assert run(engine, GetSessionJob(StopSignal(), opened.session_id)).ids == (1,)
    check_clean(engine)


def test_a_prefill_in_flight_fails_and_opens_nothing(engine: Engine) -> None:
    kind = swapping_after_the_first_step(PrefillJob, engine)
    with pytest.raises(ParametersChanged):
        run(engine, kind(StopSignal(), LONG, ALL))
    assert len(engine._hall.sessions) == 0
    check_clean(engine)


@pytest.mark.parametrize("lengths", [(84,), (14, 14, 14)], ids=["in a sequence", "between sequences"])
def test_a_score_in_flight_never_mixes(engine: Engine, lengths: tuple[int, ...]) -> None:
    kind = swapping_after_the_first_step(ScoreJob, engine)
    sequences = tuple(scored(LONG[:length]) for length in lengths)
    with pytest.raises(ParametersChanged):
        run(engine, kind(StopSignal(), sequences, Wanted(Scope.ALL)))
    check_clean(engine)


def test_neighbours_in_flight_fail_each_for_itself(engine: Engine) -> None:
    first = swapping_after_the_first_step(PrefillJob, engine)(StopSignal(), LONG, ALL)
    jobs = [first, *(PrefillJob(StopSignal(), LONG[n:], ALL) for n in range(3))]
    gate = Gate()
    engine.submit(gate)
    for job in jobs:
        engine.submit(job)
    gate.open()
    for job in jobs:
        assert isinstance(job.future.exception(60), ParametersChanged)
    check_clean(engine)


class Gate(Job):
    """Holds the compute thread, so that what is submitted meanwhile starts together."""

    def __init__(self) -> None:
        super().__init__(StopSignal())
        self._opened = threading.Event()

    def open(self) -> None:
        self._opened.set()

    def start(self, hall: Hall) -> None:
        self._opened.wait(60)
        self.answer(None)


def test_a_generation_that_waits_for_its_reader_tells_no_more(engine: Engine) -> None:
    """Its row of logits is an old one: neither a draw from it nor an entry beside it may follow the swap."""
    channel: EventChannel[Any] = EventChannel(4)
    channel.on_room = engine.wake
    call = GenerateCall(None, (1, 2), 40, SamplingParameters(temperature=0.0), 0, log_probabilities=True)
    job = GenerateJob(StopSignal(), call, channel)
    engine.submit(job)
    events = iter(channel)
    session_id = next(events).session_id

    def held() -> tuple[int, ...]:
        ids: tuple[int, ...] = run(engine, GetSessionJob(StopSignal(), session_id)).ids
        return ids

    while not channel.full:
        held()
    before = held()
    run(engine, swap(engine))
    told: list[Any] = []
    with pytest.raises(ParametersChanged):
        told.extend(events)
    assert held() == before
    assert [event.token for event in told] == list(before[2 : 2 + len(told)])
    again: EventChannel[Any] = EventChannel(4)
    engine.submit(GenerateJob(StopSignal(), None, again, session_id=session_id, resume_position=2))
    with pytest.raises(ParametersChanged):
        list(again)


def test_a_value_set_by_hand_between_steps_is_seen_too(engine: Engine) -> None:
    class Setting(ScoreJob):
        def take(self, *results: Any) -> None:
            super().take(*results)
            node = engine._hall.model.parameters["final_norm.gain"]
            node.set_value(node.values())

    with pytest.raises(ParametersChanged):
        run(engine, Setting(StopSignal(), (scored(LONG),) * 2, ALL))


def test_calls_that_wait_start_with_the_new_values(engine: Engine) -> None:
    gate, job = Gate(), swap(engine)
    engine.submit(gate)
    engine.submit(job)
    later = PrefillJob(StopSignal(), LONG, ALL)
    engine.submit(later)
    gate.open()
    assert later.future.result(60).logits.values.tobytes() == new_bits(LONG)


def test_a_cancelled_swap_changes_nothing(engine: Engine) -> None:
    before = engine._hall.model.parameters.digest()
    job = swap(engine)
    job.stop.cancel()
    with pytest.raises(CallCancelled):
        run(engine, job)
    assert engine._hall.model.parameters.digest() == before


def test_the_limit_on_calls_does_not_hold_for_a_swap() -> None:
    engine = Engine(models.with_gains(models.SMALL, 61), None, replace(LIMITS, max_calls=1), ComputeTeam(1))
    try:
        gate, job = Gate(), swap(engine)
        engine.submit(gate)
        with pytest.raises(QueueFull):
            engine.submit(GetSessionJob(StopSignal(), "x"))
        engine.submit(job)
        gate.open()
        job.future.result(60)
        assert engine._hall.model.parameters.digest() == NEW.parameters.digest()
    finally:
        engine.stop()


def test_no_append_ends_with_rows_of_two_kinds(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """The commit looks again, should a step ever have gone on."""
    monkeypatch.setattr(Job, "check_parameters", lambda self, revision: None)
    kind = swapping_after_the_first_step(PrefillJob, engine)
    with pytest.raises(ParametersChanged):
        run(engine, kind(StopSignal(), LONG, ALL))
