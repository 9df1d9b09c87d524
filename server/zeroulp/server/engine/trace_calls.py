"""Traces as plain values: the call, and the events of its stream."""

from __future__ import annotations

from dataclasses import dataclass

from zeroulp.model.work import Work


@dataclass(frozen=True, slots=True)
class TraceCall:
    """One pass over ``ids``: full, over a prefix of them, or over a session. Not both of the latter."""

    ids: tuple[int, ...]
    prefix_tokens: int | None = None
    session_id: str | None = None
    names: tuple[str, ...] = ()
    positions: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class TensorShape:
    """A tensor that follows: one row for each of the trace's positions."""

    name: str
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TraceStarted:
    """First event: what follows, and at which positions."""

    ids: tuple[int, ...]
    first_position: int
    positions: tuple[int, ...]
    tensors: tuple[TensorShape, ...]


@dataclass(frozen=True, slots=True, eq=False)
class TracePart:
    """Rows of one tensor: ``values`` are their little-endian f64, in memory of their own."""

    tensor: TensorShape
    first_row: int
    positions: tuple[int, ...]
    values: bytes


@dataclass(frozen=True, slots=True)
class TraceFinished:
    """Last event."""

    work: Work


TraceEvent = TraceStarted | TracePart | TraceFinished
