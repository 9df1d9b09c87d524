"""The way of a stream's events from the compute thread to the one reader."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

Event = TypeVar("Event")


class EventChannel(Generic[Event]):
    """Holds ``capacity`` events ahead of the reader; the writer looks at ``full`` and never waits."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._events: deque[Event] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._error: BaseException | None = None
        self.on_room: Callable[[], None] | None = None
        """Told when a full channel has room again, on the reader's thread."""

    @property
    def full(self) -> bool:
        """Whether the writer should wait for the reader."""
        return len(self._events) >= self._capacity

    def put(self, event: Event) -> None:
        """Add an event."""
        with self._changed:
            self._events.append(event)
            self._changed.notify()

    def close(self, error: BaseException | None = None) -> None:
        """Say that no event follows; the reader gets ``error`` after those that are there."""
        with self._changed:
            self._closed = True
            self._error = error
            self._changed.notify()

    def __iter__(self) -> Iterator[Event]:
        while True:
            with self._changed:
                while not self._events and not self._closed:
                    self._changed.wait()
                if not self._events:
                    if self._error is not None:
                        raise self._error
                    return
                was_full = self.full
                event = self._events.popleft()
            if was_full and self.on_room is not None:
                self.on_room()
            yield event
