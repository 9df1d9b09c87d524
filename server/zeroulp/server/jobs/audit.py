"""AuditSession: hold a session's rows against a full forward over its tokens."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from zeroulp.model.audit import Difference, first_difference
from zeroulp.model.cache.transaction import Transaction
from zeroulp.model.composition.text_segment import text_segment
from zeroulp.model.kernels.arrays import F64
from zeroulp.model.work import Work, work_of
from zeroulp.server.engine.hall import Hall
from zeroulp.server.engine.stop_signal import StopSignal
from zeroulp.server.jobs.job import Job, Share


@dataclass(frozen=True, slots=True)
class Audit:
    """Outcome of AuditSession; the work is the audit's own and not the session's."""

    position: int
    compared_values: int
    difference: Difference | None
    work: Work


class AuditJob(Job):
    """Computes the tokens again in a cache of its own, sharing nothing, in chunks like any prompt.

    Holds the session's turn, so that its rows stand still. Reports the difference that comes first in the
    order of computing: by layer, then by position.
    """

    def __init__(self, stop: StopSignal, session_id: str) -> None:
        super().__init__(stop, session_id)
        self._room: Transaction | None = None
        self._differences: list[Difference] = []
        self._compared = 0

    def start(self, hall: Hall) -> None:
        """Hold the room for all rows again; raises ``ParametersChanged`` for rows of other weights."""
        session = self.writing.session
        session.cache.check_parameters()
        self._room = Transaction(hall.model.new_cache(hall.pool), session.position)

    def share(self, hall: Hall, room: int) -> Share | None:
        """Return the next chunk of the session's tokens; only the newest needs logits."""
        if self._room is None:
            return None
        tokens, done = self.writing.session.tokens, self._room.next_position
        chunk = np.array(tokens[done : done + room], np.int64)
        newest = done + chunk.size == len(tokens)
        return Share(text_segment(self._room, chunk), chunk.size - newest)

    def take(self, hall: Hall, share: Share, hidden: F64, logits: F64) -> None:
        """Compare the chunk's rows; answer after the last."""
        room, session = self._room, self.writing.session
        if room is None:
            raise RuntimeError("the audit is over")
        first = room.next_position - len(hidden)
        for ours, again in zip(session.cache.layers, room.cache.layers, strict=True):
            cached, recomputed = ours.rows(first, len(hidden)), again.rows(first, len(hidden))
            for stage, one, other in zip(("key", "value"), cached, recomputed, strict=True):
                self._compare(ours.index, stage, first, one, other)
        self._compare(None, "final_norm", first, session.cache.hidden(first, len(hidden)), hidden)
        if room.next_position < session.position:
            return
        self._compare(None, "logits", session.position - 1, hall.newest_logits(session)[None], logits)
        work = work_of(hall.model.configuration, 0, session.position, prefill=True, cached=False)
        self.stop.check()
        self.answer(Audit(session.position, self._compared, self._first, work))

    def _compare(self, layer: int | None, stage: str, first: int, cached: F64, recomputed: F64) -> None:
        self._compared += cached.size
        difference = first_difference(layer, stage, first, cached, recomputed)
        if difference is not None:
            self._differences.append(difference)

    @property
    def _first(self) -> Difference | None:
        """The first in the order of computing; chunks add theirs one after the other."""

        def place(found: Difference) -> tuple[bool, int]:
            return (found.layer is None, found.layer or 0)

        return min(self._differences, key=place, default=None)

    def release(self, hall: Hall) -> None:
        """Give the room back."""
        if self._room is not None:
            self._room.rollback()
            self._room = None
