"""The events of a trace whose pass is over, made one by one."""

from __future__ import annotations

from collections.abc import Iterator

from zeroulp.model.tracing.tracer import Tracer
from zeroulp.model.work import Work
from zeroulp.server.engine.limits import Limits
from zeroulp.server.engine.trace_calls import (
    TensorShape,
    TraceEvent,
    TraceFinished,
    TracePart,
    TraceStarted,
)
from zeroulp.server.jobs.trace_plan import MESSAGE_SLACK, POSITION_BYTES, TracePlan


def events_of(
    limits: Limits, plan: TracePlan, tracer: Tracer, ids: tuple[int, ...], work: Work
) -> Iterator[TraceEvent]:
    """Yield the start, every tensor in the order of the pass, part by part, and the end.

    A part is bytes of its own, so that one that waits for its reader keeps no tensor alive.
    """
    tensors = [TensorShape(stage.name, (plan.positions.size, stage.features)) for stage in plan.stages]
    positions = tuple(plan.positions.tolist())
    yield TraceStarted(ids, plan.first, positions, tuple(tensors))
    part_bytes = min(limits.trace_part_bytes, limits.max_message_bytes - MESSAGE_SLACK)
    for tensor, snapshot in zip(tensors, tracer.snapshots(), strict=True):
        rows = max(1, part_bytes // (8 * tensor.shape[1] + POSITION_BYTES))
        for start in range(0, len(positions), rows):
            values = snapshot.values[start : start + rows].astype("<f8", copy=False).tobytes()
            yield TracePart(tensor, start, positions[start : start + rows], values)
    yield TraceFinished(work)
