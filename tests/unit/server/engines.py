"""Calls to an engine without a wire."""

from __future__ import annotations

import time
from typing import Any

from unit.model import models
from zeroulp.model.compute_team import ComputeTeam
from zeroulp.model.context import NoGrad
from zeroulp.model.full_forward import full_forward
from zeroulp.model.sampling import SamplingParameters
from zeroulp.server.engine.calls import (
    Appended,
    GenerateCall,
    GenerationEvent,
    Scope,
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
from zeroulp.server.jobs.session_calls import CloseSessionJob, ForkSessionJob, TruncateSessionJob

LIMITS = Limits(cache_bytes=64 * 1024 * 1024, step_rows=16, shared_step_rows=8)
ALL = Wanted(Scope.ALL)
MODEL = models.with_gains(models.SMALL, 51)
GREEDY = SamplingParameters(temperature=0.0)
PROMPT = [(7 * n + n * n) % 29 for n in range(128)]


def run(engine: Engine, job: Job) -> Any:
    job.stop.on_cancel = engine.wake
    engine.submit(job)
    return job.future.result(60)


def prefill(engine: Engine, ids: list[int]) -> Appended:
    return run(engine, PrefillJob(StopSignal(), tuple(ids), ALL))  # type: ignore[no-any-return]


def generated(engine: Engine, call: GenerateCall) -> list[Any]:
    channel = EventChannel[GenerationEvent](LIMITS.generate_ahead)
    channel.on_room = engine.wake
    engine.submit(GenerateJob(StopSignal(), call, channel))
    return list(channel)


def rows(appended: Appended) -> bytes:
    assert appended.logits is not None
    return appended.logits.values.tobytes()


def full(ids: list[int]) -> bytes:
    return full_forward(MODEL, NoGrad(ComputeTeam(1)), ids).tobytes()


def fork(engine: Engine, session_id: str) -> Any:
    return run(engine, ForkSessionJob(StopSignal(), session_id))


def truncate(engine: Engine, session_id: str, position: int) -> Any:
    return run(engine, TruncateSessionJob(StopSignal(), session_id, position))


def decode(engine: Engine, session_id: str, ids: list[int]) -> Any:
    return run(engine, DecodeJob(StopSignal(), session_id, tuple(ids), ALL))


def close(engine: Engine, session_id: str) -> None:
    run(engine, CloseSessionJob(StopSignal(), session_id))


def footprint(engine: Engine) -> tuple[int, int, int]:
    engine._hall.check_integrity()
    return len(engine._hall.sessions), engine._hall.sessions._places, engine._hall.pool.free


class Unread:
    """A generation that nobody reads beyond its first event: it stands still, with its turn and its room."""

    def __init__(self, engine: Engine, call: GenerateCall) -> None:
        self.channel: EventChannel[Any] = EventChannel(2)
        self.channel.on_room = engine.wake
        self.job = GenerateJob(StopSignal(), call, self.channel)
        engine.submit(self.job)
        self.events = iter(self.channel)
        self.session_id = next(self.events).session_id
        end = time.monotonic() + 60
        while not self.channel.full:
            assert time.monotonic() < end, "waited in vain"
            time.sleep(0.001)

    def read(self) -> list[Any]:
        return list(self.events)
