"""The memory that traces may keep values in."""

from __future__ import annotations

from zeroulp.model.errors import MessageTooLarge, QueueFull


class TraceRoom:
    """Bytes that the traces under way hold together. Owned by the compute thread.

    Invariant: ``0 <= used <= limit``.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.used = 0

    def take(self, nbytes: int) -> None:
        """Hold ``nbytes``; raises ``MessageTooLarge`` if they never fit, ``QueueFull`` if not now."""
        if nbytes > self._limit:
            raise MessageTooLarge(
                f"the trace would have {nbytes} bytes of values; {self._limit} are allowed: "
                "choose fewer names or positions",
                trace_bytes=nbytes,
                max_trace_bytes=self._limit,
            )
        if self.used + nbytes > self._limit:
            raise QueueFull(
                f"the trace would have {nbytes} bytes of values, and the traces under way hold {self.used} "
                f"of the {self._limit} that are allowed together",
                trace_bytes=nbytes,
                held_bytes=self.used,
                max_trace_bytes=self._limit,
            )
        self.used += nbytes

    def give(self, nbytes: int) -> None:
        """Return held bytes."""
        if not 0 <= nbytes <= self.used:
            raise RuntimeError(f"{nbytes} bytes are given back, {self.used} are held")
        self.used -= nbytes
