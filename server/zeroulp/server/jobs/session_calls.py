"""GetSession, ForkSession, TruncateSession and CloseSession."""

from __future__ import annotations

from zeroulp.model.errors import InvalidArgument
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


class ForkSessionJob(Job):
    """Waits for its turn like a writer, so that it never shares a block that one is writing to."""

    def __init__(self, stop: StopSignal, session_id: str) -> None:
        super().__init__(stop, session_id)

    def start(self, hall: Hall) -> None:
        """Open a session that holds the same blocks; no row is copied or computed."""
        session = self.writing.session
        session.cache.check_parameters()
        self.stop.check()
        hall.sessions.take_place()
        fork = hall.new_session()
        fork.reuse(session, session.position)
        self.answer(_state(hall.sessions.open(fork)))


class TruncateSessionJob(Job):
    """Waits for its turn like a writer, since it is one."""

    def __init__(self, stop: StopSignal, session_id: str, position: int) -> None:
        super().__init__(stop, session_id)
        self._position = position

    def start(self, hall: Hall) -> None:
        """Cut and answer; what was generated can be resumed no more."""
        opened = self.writing
        if not 1 <= self._position <= opened.session.position:
            raise InvalidArgument(
                f"position is {self._position}; the session can be cut to 1 up to {opened.session.position}",
                field="position",
            )
        self.stop.check()
        opened.session.truncate(self._position)
        opened.generation = None
        hall.sessions.changed(opened)
        self.answer(_state(opened))


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
