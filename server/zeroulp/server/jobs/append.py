"""Appending tokens to a session chunk by chunk, committed at once.

It is what Prefill, Decode and Generate share.
"""

from __future__ import annotations

import numpy as np

from zeroulp.model.cache.transaction import Transaction
from zeroulp.model.composition.text_segment import text_segment
from zeroulp.model.kernels.arrays import F64, I64
from zeroulp.model.probabilities import log_probabilities
from zeroulp.model.session import Session
from zeroulp.model.work import Work, work_of
from zeroulp.server.engine.calls import LogitRows, Scope, TopAt, Wanted
from zeroulp.server.engine.hall import Hall
from zeroulp.server.engine.stop_signal import StopSignal
from zeroulp.server.jobs.job import Share


class Append:
    """An open transaction over the tokens ``ids`` of one session.

    ``reused`` tokens of the call lie in the session already, shared with another: they cost no forward, and
    their logits, where wanted, come from their stored rows of H.
    """

    def __init__(self, hall: Hall, session: Session, ids: I64, wanted: Wanted, *, reused: int = 0) -> None:
        self._hall = hall
        self._session = session
        self._ids = ids
        self._wanted = wanted
        self._opens = session.position == reused
        self._reused = reused
        self._read_again = 0 if wanted.scope is Scope.ALL else reused
        self._done = 0
        self._kept: list[F64] = []
        self._transaction = Transaction(session.cache, ids.size)
        self.first_position = session.position

    def share(self, room: int) -> Share:
        """Return the next rows, ``room`` at the most."""
        if self._read_again < self._reused:
            count = min(room, self._reused - self._read_again)
            return Share(None, stored=self._session.cache.hidden(self._read_again, count))
        chunk = self._ids[self._done : self._done + room]
        return Share(
            text_segment(self._transaction, chunk),
            self._first_wanted(chunk.size),
        )

    def _first_wanted(self, rows: int) -> int:
        if self._wanted.scope is Scope.ALL:
            return 0
        newest = self._done + rows == self._ids.size
        needed = self._wanted.scope is Scope.LAST or self._wanted.top_entries
        return rows - 1 if newest and needed else rows

    def take(self, hidden: F64, logits: F64) -> bool:
        """Keep a share's results; tell whether all tokens are computed."""
        if self._read_again < self._reused:
            self._read_again += len(logits)
        self._done += len(hidden)
        self._transaction.keep_hidden(hidden)
        if len(logits):
            self._kept.append(logits)
        return self._done == self._ids.size

    def commit(self, stop: StopSignal) -> Work:
        """Publish rows, tokens and counters, unless the call is not wanted any more. Returns the work."""
        session = self._session
        configuration = self._hall.model.configuration
        work = work_of(configuration, session.position, self._ids.size, prefill=self._opens)
        stop.check()  # the last look: after this line the call has happened
        session.commit(self._transaction, self._ids, work)
        return work + Work(reused_tokens=self._reused)

    def rollback(self) -> None:
        """Give the room back, unless it was committed."""
        self._transaction.rollback()

    def logit_rows(self) -> F64:
        """Return the wanted logits ``[rows, V]``."""
        return self._kept[0] if len(self._kept) == 1 else np.concatenate(self._kept)

    def outcome(self) -> tuple[LogitRows | None, tuple[TopAt, ...]]:
        """Return logits and top entries as the answer carries them."""
        if not self._kept:
            return None, ()
        return rows_and_entries(
            self._hall, self.logit_rows(), self.first_position + self._ids.size, self._wanted
        )


def rows_and_entries(
    hall: Hall, z: F64, end: int, wanted: Wanted
) -> tuple[LogitRows | None, tuple[TopAt, ...]]:
    """Return what ``wanted`` asks for of logits ``z [rows, V]``; the last follows position ``end - 1``."""
    first = end - len(z)
    rows = LogitRows(first, z) if wanted.scope is not Scope.NONE else None
    if not wanted.top_entries:
        return rows, ()
    table = log_probabilities(hall.context, z)
    top = tuple(TopAt(first + row, table.top(row, wanted.top_entries)) for row in range(len(z)))
    return rows, top


def check_wanted(hall: Hall, wanted: Wanted, tokens: int) -> None:
    """Raise before anything is computed if the answer for ``tokens`` tokens would break a limit."""
    hall.check_entries(wanted.top_entries)
    rows = {Scope.NONE: 0, Scope.LAST: 1, Scope.ALL: tokens}[wanted.scope]
    hall.check_answer_size(rows, max(rows, 1) * wanted.top_entries, tokens)
