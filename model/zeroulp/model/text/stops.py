"""Stop strings: where a generation's text ends, and what of it can be shown already.

Knows text only. The prompt is never pushed, so a match lies in the generated text alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from zeroulp.model.errors import InvalidArgument

MAX_STOPS: Final = 16
"""Most stop strings of one call; each costs a step for each generated character."""


class StopMatcher:
    """Finds the first stop string in a text that arrives in pieces.

    The match that is complete first wins; of several complete at the same character, the one that
    starts first. No character of it is ever returned. Text that may yet become a match is held back,
    no more than that, and returned as soon as it cannot. Cuts between pieces change nothing.

    Used by one generation and one thread. Raises ``InvalidArgument`` for an empty stop string and for
    more than ``MAX_STOPS``.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        if len(stops) > MAX_STOPS:
            raise InvalidArgument(
                f"{len(stops)} stop strings were given; at most {MAX_STOPS} are allowed", field="stop"
            )
        if "" in stops:
            raise InvalidArgument(f"stop string {list(stops).index('')} is empty", field="stop")
        self._prefixes = [_Prefix(stop) for stop in stops]
        self._held = ""
        self.matched: str | None = None

    def push(self, text: str) -> str:
        """Return what can be shown after ``text``; nothing any more once a stop string has matched."""
        if self.matched is not None:
            return ""
        pending = self._held + text
        for end, character in enumerate(text, start=len(self._held) + 1):
            for prefix in self._prefixes:
                prefix.advance(character)
            complete = [prefix.stop for prefix in self._prefixes if prefix.is_complete]
            if complete:
                self.matched = max(complete, key=len)
                self._held = ""
                return pending[: end - len(self.matched)]
        held = max((prefix.length for prefix in self._prefixes), default=0)
        shown = len(pending) - held
        self._held = pending[shown:]
        return pending[:shown]

    def finish(self) -> str:
        """Return the held-back text at the end of a generation that no stop string ended."""
        tail, self._held = self._held, ""
        for prefix in self._prefixes:
            prefix.length = 0
        return tail


class _Prefix:
    """How much of one stop string the text ends with, kept up by the Knuth-Morris-Pratt automaton."""

    def __init__(self, stop: str) -> None:
        self.stop = stop
        self.length = 0
        # shorter[n] is the longest proper prefix of stop that stop[:n] ends with.
        self._shorter = [0] * (len(stop) + 1)
        for end in range(2, len(stop) + 1):
            self._shorter[end] = self._extend(self._shorter[end - 1], stop[end - 1])

    @property
    def is_complete(self) -> bool:
        return self.length == len(self.stop)

    def advance(self, character: str) -> None:
        self.length = self._extend(self.length, character)

    def _extend(self, length: int, character: str) -> int:
        while length and self.stop[length] != character:
            length = self._shorter[length]
        return length + 1 if self.stop[length] == character else 0
