"""The text of a generation as it grows: whole characters, once, and no part of a stop string."""

from __future__ import annotations

from collections.abc import Sequence

from zeroulp.model.text import StopMatcher, StreamDecoder, Tokenizer


class Utterance:
    """Without a tokenizer its text stays empty."""

    def __init__(self, tokenizer: Tokenizer | None, stops: Sequence[str]) -> None:
        self._decoder = StreamDecoder(tokenizer) if tokenizer is not None else None
        self._stops = StopMatcher(stops)

    @property
    def stopped(self) -> str | None:
        """The stop string that was completed."""
        return self._stops.matched

    def push(self, token: int) -> str:
        """Return the text that became final with a token."""
        return self._stops.push(self._decoder.push(token)) if self._decoder is not None else ""

    def finish(self) -> str:
        """Return the text that was held back, now that nothing follows."""
        if self._decoder is None or self.stopped is not None:
            return ""
        return self._stops.push(self._decoder.finish()) + self._stops.finish()
