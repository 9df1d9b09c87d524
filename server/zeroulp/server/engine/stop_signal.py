"""Whether a call is still wanted."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from zeroulp.model.errors import CallCancelled, DeadlinePassed


class StopSignal:
    """Raised by the caller's side (any thread), looked at by the compute thread."""

    def __init__(self, seconds: float | None = None) -> None:
        self._cancelled = threading.Event()
        self._deadline = None if seconds is None else time.monotonic() + seconds
        self.on_cancel: Callable[[], None] | None = None
        """Told once, on the cancelling thread; set before the call is submitted."""

    def cancel(self) -> None:
        """Say that nobody waits for the call any more."""
        self._cancelled.set()
        if self.on_cancel is not None:
            self.on_cancel()

    def check(self) -> None:
        """Raise ``CallCancelled`` or ``DeadlinePassed`` if the call is not wanted any more."""
        if self._cancelled.is_set():
            raise CallCancelled("the caller cancelled; nothing more was committed")
        if self._deadline is not None and time.monotonic() >= self._deadline:
            raise DeadlinePassed("the deadline passed; nothing more was committed")
