"""The stages of a call in the engine, and the only ways between them."""

from __future__ import annotations

import enum


class Stage(enum.Enum):
    """Where a call is."""

    QUEUED = "queued"
    """Submitted, or waiting for its turn on a session."""
    RUNNING = "running"
    """Validated against the present state; has its room and joins steps."""
    DONE = "done"
    FAILED = "failed"


TRANSITIONS: dict[Stage, frozenset[Stage]] = {
    Stage.QUEUED: frozenset({Stage.RUNNING, Stage.FAILED}),
    Stage.RUNNING: frozenset({Stage.DONE, Stage.FAILED}),
    Stage.DONE: frozenset(),
    Stage.FAILED: frozenset(),
}


def moved(now: Stage, to: Stage) -> Stage:
    """Return ``to``; raises ``RuntimeError`` if a call cannot get there from ``now``."""
    if to not in TRANSITIONS[now]:
        raise RuntimeError(f"a call cannot go from {now.value} to {to.value}")
    return to
