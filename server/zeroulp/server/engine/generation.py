"""What a session remembers of its newest generation, so that a broken stream can be taken up again."""

from __future__ import annotations

from dataclasses import dataclass, field

from zeroulp.model.kernels.arrays import F64
from zeroulp.server.engine.calls import GenerateCall


@dataclass(slots=True, eq=False)
class Generation:
    """The call, where its first new token stands, and the hidden row ``[D]`` each token was drawn from.

    The head gives the same logits from a hidden row at any time, so everything that was told beside a
    token can be told again.
    """

    call: GenerateCall
    start: int
    drawn_from: list[F64] = field(default_factory=list)
