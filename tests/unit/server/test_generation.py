"""A generation commits and tells the tokens of the plain loop, no more than its reader takes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from unit.server.engines import MODEL, generated, prefill, run
from zeroulp.model.compute_team import ComputeTeam
from zeroulp.model.context import NoGrad
from zeroulp.model.errors import (
    CallCancelled,
    NonFinite,
)
from zeroulp.model.full_forward import full_forward
from zeroulp.model.sampling import SamplingParameters, draw
from zeroulp.server.engine.calls import (
    Finished,
    FinishReason,
    GenerateCall,
    Generated,
    GenerationEvent,
    Started,
)
from zeroulp.server.engine.engine import Engine
from zeroulp.server.engine.event_channel import EventChannel
from zeroulp.server.engine.stop_signal import StopSignal
from zeroulp.server.jobs.generate import GenerateJob
from zeroulp.server.jobs.session_calls import GetSessionJob


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
    channel = EventChannel[GenerationEvent](8)
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
    channel = EventChannel[GenerationEvent](4)
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
