"""Calls to an engine without a wire."""

from __future__ import annotations

from typing import Any

from unit.model import models
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
from zeroulp.server.jobs.generate import GenerateJob
from zeroulp.server.jobs.job import Job
from zeroulp.server.jobs.prefill import PrefillJob

LIMITS = Limits(cache_bytes=64 * 1024 * 1024, step_rows=16, shared_step_rows=8)
ALL = Wanted(Scope.ALL)
MODEL = models.with_gains(models.SMALL, 51)


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
