"""The open sessions by id."""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from zeroulp.model.errors import SessionBusy, SessionLimit, SessionUnknown
from zeroulp.model.session import Session
from zeroulp.server.engine.prefix_index import PrefixIndex

if TYPE_CHECKING:
    from zeroulp.server.engine.generation import Generation
    from zeroulp.server.jobs.job import Job


@dataclass(slots=True, eq=False)
class OpenSession:
    """A session with the calls that write to it; the first of them has its turn."""

    id: str
    session: Session
    writers: deque[Job] = field(default_factory=deque)
    generation: Generation | None = None
    """The newest generation, as long as nothing else was committed after it."""


class SessionTable:
    """Owned by the compute thread. A call that opens a session holds a place from its start."""

    def __init__(self, limit: int, max_waiting: int) -> None:
        self._limit = limit
        self._max_waiting = max_waiting
        self._open: dict[str, OpenSession] = {}
        self._prefixes = PrefixIndex()
        self._places = 0

    def __len__(self) -> int:
        return len(self._open)

    def __iter__(self) -> Iterator[OpenSession]:
        return iter(self._open.values())

    def take_place(self) -> None:
        """Hold a place for a session that is being opened; raises ``SessionLimit``."""
        if len(self._open) + self._places >= self._limit:
            raise SessionLimit(
                f"{self._limit} sessions are open, which is the limit", max_sessions=self._limit
            )
        self._places += 1

    def give_place(self) -> None:
        """Return a held place."""
        self._places -= 1

    def open(self, session: Session) -> OpenSession:
        """Enter a session under a new, unguessable id, in a place that was held."""
        self._places -= 1
        opened = OpenSession(secrets.token_urlsafe(16), session)
        self._open[opened.id] = opened
        self._prefixes.sync(opened)
        return opened

    def changed(self, opened: OpenSession) -> None:
        """Take note that a session has other tokens than before."""
        self._prefixes.sync(opened)

    def longest_prefix(self, ids: list[int]) -> tuple[Session, int] | None:
        """Return the session that begins with the most of ``ids``, at least a block, and how many."""
        found = self._prefixes.longest(ids)
        return (found[0].session, found[1]) if found is not None else None

    def find(self, session_id: str) -> OpenSession:
        """Return the session; raises ``SessionUnknown``."""
        try:
            return self._open[session_id]
        except KeyError:
            raise SessionUnknown(
                "no session has this id; open a new one and prefill its tokens: "
                "the continuation is the same bits",
                field="session_id",
            ) from None

    def queue_writer(self, opened: OpenSession, job: Job) -> None:
        """Let a call wait for its turn; raises ``SessionBusy`` when too many do."""
        if len(opened.writers) > self._max_waiting:
            raise SessionBusy(
                f"{self._max_waiting} calls already wait for their turn on the session",
                max_waiting=self._max_waiting,
            )
        opened.writers.append(job)

    def close(self, opened: OpenSession) -> None:
        """Forget the session and give its blocks back."""
        del self._open[opened.id]
        self._prefixes.remove(opened)
        opened.session.cache.release()

    def check_integrity(self) -> None:
        """Raise ``RuntimeError`` unless places, prefixes and every session are sound."""
        if not 0 <= self._places <= self._places + len(self._open) <= self._limit:
            raise RuntimeError(f"{len(self._open)} open and {self._places} held places of {self._limit}")
        for opened in self:
            opened.session.check_integrity()
        self._prefixes.check_integrity(self._open.values())
