"""Stop strings by looking at the whole text so far, at every character anew."""

from __future__ import annotations

from collections.abc import Sequence


def cut_at_stop(text: str, stops: Sequence[str]) -> tuple[str, str | None]:
    """Return what may be shown of a complete text, and the stop string that ends it."""
    for end in range(len(text) + 1):
        complete = [stop for stop in stops if text[:end].endswith(stop)]
        if complete:
            stop = max(complete, key=len)
            return text[: end - len(stop)], stop
    return text, None


def releasable(text: str, stops: Sequence[str]) -> str:
    """Return the part of a text without a match that cannot become part of a match any more."""
    for start in range(len(text)):
        if any(stop.startswith(text[start:]) for stop in stops):
            return text[:start]
    return text
