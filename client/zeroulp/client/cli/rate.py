"""How fast tokens come."""

from __future__ import annotations

import time


class Rate:
    """Counts tokens, and the time between the first and the last: the prompt's own time is not in it."""

    def __init__(self) -> None:
        self.tokens = 0
        self._first_seconds = 0.0
        self._last_seconds = 0.0

    def count(self) -> None:
        """Count a token that has just come."""
        self._last_seconds = time.perf_counter()
        if self.tokens == 0:
            self._first_seconds = self._last_seconds
        self.tokens += 1

    def __str__(self) -> str:
        said = f"{self.tokens} token{'' if self.tokens == 1 else 's'}"
        seconds = self._last_seconds - self._first_seconds
        return f"{said}, {(self.tokens - 1) / seconds:.1f} tok/s" if seconds > 0 else said
