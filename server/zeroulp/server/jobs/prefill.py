"""Prefill: open a session with a prompt."""

from __future__ import annotations

from zeroulp.model.kernels.arrays import F64
from zeroulp.model.session import Session
from zeroulp.server.engine.calls import Appended, Wanted
from zeroulp.server.engine.hall import Hall
from zeroulp.server.engine.stop_signal import StopSignal
from zeroulp.server.jobs.append import Append, check_wanted
from zeroulp.server.jobs.job import Job, Share


class PrefillJob(Job):
    """Nobody can find the session before all of the prompt is committed."""

    def __init__(self, stop: StopSignal, ids: tuple[int, ...], wanted: Wanted) -> None:
        super().__init__(stop)
        self._ids = ids
        self._wanted = wanted
        self._append: Append | None = None
        self._session: Session | None = None
        self._holds_place = False

    def start(self, hall: Hall) -> None:
        """Check ids, room, answer, session limit and cache; hold the room."""
        hall.model.check_room(0, len(self._ids), field="token_ids")
        ids = hall.model.check_tokens(self._ids, field="token_ids")
        check_wanted(hall, self._wanted, ids.size)
        hall.sessions.take_place()
        self._holds_place = True
        self._session = hall.new_session()
        reused = hall.reuse(self._session, ids)
        self._append = Append(hall, self._session, ids[reused:], self._wanted, reused=reused)

    def share(self, hall: Hall, room: int) -> Share | None:
        """Return the next chunk of the prompt."""
        return self._append.share(room) if self._append else None

    def take(self, hall: Hall, share: Share, hidden: F64, logits: F64) -> None:
        """Commit after the last chunk."""
        append, session = self._append, self._session
        if append is None or session is None or not append.take(hidden, logits):
            return
        rows, top = append.outcome()
        work = append.commit(self.stop)
        self._append = None
        opened = hall.sessions.open(session)
        self._holds_place = False
        self.answer(Appended(opened.id, session.position, self._ids, rows, top, work, session.total_work))

    def release(self, hall: Hall) -> None:
        """Give back place and room of a prompt that was not committed."""
        if self._append is not None:
            self._append.rollback()
        if self._holds_place:
            hall.sessions.give_place()
            if self._session is not None:
                self._session.cache.release()
