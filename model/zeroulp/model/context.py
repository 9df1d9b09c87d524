"""How a forward is executed: explicit, and passed down to every operation."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

from zeroulp.model.compute_team import ComputeTeam
from zeroulp.model.kernels.arrays import F64


class Observer(Protocol):
    """Is shown every named stage's values ``[rows, features]`` as they are computed; must not change them."""

    def __call__(self, layer: int | None, stage: str, values: F64) -> None:
        """See one stage; ``layer`` is None outside the blocks."""


@dataclass(frozen=True, slots=True)
class NoGrad:
    """Execution without a graph, by the threads of ``team``."""

    team: ComputeTeam
    observer: Observer | None = None

    def observed_by(self, observer: Observer) -> NoGrad:
        """Return the same context with ``observer`` watching."""
        return replace(self, observer=observer)

    def observe(self, layer: int | None, stage: str, values: F64) -> None:
        """Show a stage to the observer, if there is one."""
        if self.observer is not None:
            self.observer(layer, stage, values)
