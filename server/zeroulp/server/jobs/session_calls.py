"""GetSession and CloseSession."""

from __future__ import annotations

from zeroulp.server.engine.calls import SessionState
from zeroulp.server.engine.hall import Hall
from zeroulp.server.engine.session_table import OpenSession
from zeroulp.server.engine.stop_signal import StopSignal
from zeroulp.server.jobs.job import Job


class GetSessionJob(Job):
    """Reads between two steps; waits for no writer."""

    def __init__(self, stop: StopSignal, session_id: str) -> None:
        super().__init__(stop)
        self._reads = session_id

    def start(self, hall: Hall) -> None:
        """Answer at once."""
        self.answer(_state(hall.sessions.find(self._reads)))


class CloseSessionJob(Job):
    """Waits for its turn like a writer, so that it never takes the blocks from under one."""

    def __init__(self, stop: StopSignal, session_id: str) -> None:
        super().__init__(stop, session_id)

    def start(self, hall: Hall) -> None:
        """Close and answer."""
        state = _state(self.writing)
        hall.sessions.close(self.writing)
        self.answer(state)


def _state(opened: OpenSession) -> SessionState:
    session = opened.session
    return SessionState(
        opened.id, session.position, tuple(session.tokens), session.total_work, session.cache.nbytes
    )
