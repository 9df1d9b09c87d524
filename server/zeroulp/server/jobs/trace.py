"""Trace: the stages of one pass, which commits nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from zeroulp.model.cache.sequence_cache import SequenceCache
from zeroulp.model.cache.transaction import Transaction
from zeroulp.model.composition.text_segment import text_segment
from zeroulp.model.kernels.arrays import F64, I64
from zeroulp.model.tracing.tracer import Tracer
from zeroulp.model.work import Work, work_of
from zeroulp.server.engine.event_channel import EventChannel
from zeroulp.server.engine.hall import Hall
from zeroulp.server.engine.stop_signal import StopSignal
from zeroulp.server.engine.trace_calls import TraceCall, TraceEvent, TraceFinished
from zeroulp.server.jobs.job import Share
from zeroulp.server.jobs.stream_job import StreamJob
from zeroulp.server.jobs.trace_plan import TracePlan, planned
from zeroulp.server.jobs.trace_stream import events_of


@dataclass(frozen=True, slots=True, eq=False)
class _Pass:
    """What a started trace works on; it holds the values."""

    plan: TracePlan
    tracer: Tracer


class TraceJob(StreamJob):
    """Computes first, keeping what was chosen, and then streams it as its reader takes it.

    The cache's room and a session's turn are given back in between; the values' room is held to the end.
    """

    def __init__(self, stop: StopSignal, call: TraceCall, channel: EventChannel[TraceEvent]) -> None:
        super().__init__(stop, channel, call.session_id)
        self._call = call
        self._pass: _Pass | None = None
        self._held_bytes = 0
        self._cache: SequenceCache | None = None
        """A cache of the trace's own; a session's is not kept here."""
        self._room: Transaction | None = None
        self._seen = False
        """Whether the prefix is done, and the rows that come are the traced ones."""
        self._events: Iterator[TraceEvent] | None = None

    def start(self, hall: Hall) -> None:
        """Check everything that a refusal can be about, and hold the room for values and rows."""
        session = self.opened.session if self.opened is not None else None
        plan = planned(hall, self._call, session.position if session is not None else 0)
        hall.trace_room.take(plan.nbytes)
        self._held_bytes = plan.nbytes
        if session is not None:
            self._room = Transaction(session.cache, plan.ids.size)
        else:
            self._cache = hall.model.new_cache(hall.pool)
            self._cache.reserve(plan.ids.size)
            self._room = Transaction(self._cache, plan.prefix or plan.ids.size)
        self._seen = not plan.prefix
        self._pass = _Pass(plan, Tracer(plan.stages, plan.positions))

    @property
    def _started(self) -> _Pass:
        if self._pass is None:
            raise RuntimeError("the trace has not started, or is over")
        return self._pass

    # -- the pass ------------------------------------------------------------------------------

    def share(self, hall: Hall, room: int) -> Share | None:
        """Return the next rows of the pass; once it is over, stream what the reader takes."""
        if self._room is None:
            self._stream()
            return None
        plan, tracer, start = self._started.plan, self._started.tracer, self._room.next_position
        done = start - plan.first
        chunk: I64 = plan.ids[done : min(done + room, plan.ids.size if self._seen else plan.prefix)]
        segment = text_segment(self._room, chunk)
        if not self._seen:
            return Share(segment, chunk.size)
        tracer.first = start
        return Share(segment, self._first_wanted(start, chunk.size), observer=tracer)

    def _first_wanted(self, start: int, count: int) -> int:
        """Return the first of ``count`` rows whose logits are kept; all before it need none."""
        plan = self._started.plan
        within = plan.positions[self._started.tracer.rows_within(start, count)]
        return int(within[0]) - start if plan.traces_logits and within.size else count

    def take(self, hall: Hall, share: Share, hidden: F64, logits: F64) -> None:
        """Keep the logits, and go on from prefix to traced rows, and from them to the stream."""
        if self._room is None:
            raise RuntimeError("the pass is over")
        plan, tracer = self._started.plan, self._started.tracer
        if len(logits):
            tracer.first = self._room.next_position - share.wanted_rows
            tracer(None, "logits", logits)
        rows = self._room.next_position - plan.first
        if rows == plan.ids.size:
            self._leave_cache()
            work = _work(hall, plan, own=self.opened is None)
            self._events = events_of(hall.limits, plan, tracer, self._call.ids, work)
        elif not self._seen and rows == plan.prefix:
            self._room.commit()  # in a cache that nobody else knows
            self._room = Transaction(self._room.cache, plan.ids.size - rows)
            self._seen = True

    def _leave_cache(self) -> None:
        """Give back the rows, and the session's turn: neither waits for the reader of the stream."""
        if self._room is not None:
            self._room.rollback()
            self._room = None
        if self._cache is not None:
            self._cache.release()
            self._cache = None
        if self.opened is not None and self in self.opened.writers:
            self.opened.writers.remove(self)

    # -- the stream ----------------------------------------------------------------------------

    def _stream(self) -> None:
        if self._events is None:
            return
        while not self.channel.full:
            event = next(self._events)
            if isinstance(event, TraceFinished):
                self.answer(event)
                return
            self.channel.put(event)

    # -- end -----------------------------------------------------------------------------------

    def release(self, hall: Hall) -> None:
        """Give back everything that is still held."""
        self._leave_cache()
        self._pass = self._events = None
        hall.trace_room.give(self._held_bytes)
        self._held_bytes = 0


def _work(hall: Hall, plan: TracePlan, *, own: bool) -> Work:
    """Return what the pass cost: a full forward fills no cache, a cached pass its own or a session's."""
    configuration, count = hall.model.configuration, plan.ids.size
    if own and not plan.prefix:
        return work_of(configuration, 0, count, prefill=True, cached=False)
    prefix = work_of(configuration, plan.first, plan.prefix, prefill=True)
    return prefix + work_of(configuration, plan.first + plan.prefix, count - plan.prefix, prefill=False)
