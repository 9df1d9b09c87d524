"""What a session remembers of its newest generation, so that a broken stream can be taken up again."""

from __future__ import annotations

from dataclasses import dataclass

from zeroulp.server.engine.calls import GenerateCall


@dataclass(frozen=True, slots=True, eq=False)
class Generation:
    """The call, and where its first new token stands.

    The session keeps each position's row of H, from which the head gives the same logits at any time: what
    was told beside a token can be told again.
    """

    call: GenerateCall
    start: int
