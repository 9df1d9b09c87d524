"""Decode: append tokens to a session."""

from __future__ import annotations

from zeroulp.model.kernels.arrays import F64
from zeroulp.server.engine.calls import Appended, Wanted
from zeroulp.server.engine.hall import Hall
from zeroulp.server.engine.stop_signal import StopSignal
from zeroulp.server.jobs.append import Append, check_wanted
from zeroulp.server.jobs.job import Job, Share


class DecodeJob(Job):
    """All of its tokens are committed, or none."""

    def __init__(self, stop: StopSignal, session_id: str, ids: tuple[int, ...], wanted: Wanted) -> None:
        super().__init__(stop, session_id)
        self._ids = ids
        self._wanted = wanted
        self._append: Append | None = None

    def start(self, hall: Hall) -> None:
        """Check ids, room, answer and cache; hold the room."""
        session = self.writing.session
        hall.model.check_room(session.position, len(self._ids), field="token_ids")
        ids = hall.model.check_tokens(self._ids, field="token_ids")
        check_wanted(hall, self._wanted, ids.size)
        self._append = Append(hall, session, ids, self._wanted)

    def share(self, hall: Hall, room: int) -> Share | None:
        """Return the next chunk of the tokens."""
        return self._append.share(room) if self._append else None

    def take(self, hall: Hall, share: Share, hidden: F64, logits: F64) -> None:
        """Commit after the last chunk."""
        append, opened = self._append, self.writing
        if append is None or not append.take(hidden, logits):
            return
        rows, top = append.outcome()
        work = append.commit(self.stop)
        opened.generation = None
        hall.sessions.changed(opened)
        session = opened.session
        self.answer(Appended(opened.id, session.position, self._ids, rows, top, work, session.total_work))

    def release(self, hall: Hall) -> None:
        """Give back the room of tokens that were not committed."""
        if self._append is not None:
            self._append.rollback()
