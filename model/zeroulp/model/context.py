"""How a forward is executed: explicit, and passed down to every operation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Protocol

from zeroulp.model.compute_team import ComputeTeam
from zeroulp.model.kernels.arrays import F64
from zeroulp.model.workspace import Workspace


class Observer(Protocol):
    """Is shown every named stage's values ``[rows, features]`` as they are computed.

    Must not change them, and must copy what it wants to keep: the memory is used again.
    """

    def __call__(self, layer: int | None, stage: str, values: F64) -> None:
        """See one stage; ``layer`` is None outside the blocks."""


def _go_on() -> None:
    """Nothing can break the forward off."""


@dataclass(frozen=True, slots=True)
class NoGrad:
    """Execution without a graph, by the threads of ``team``; one execution at a time."""

    team: ComputeTeam
    observer: Observer | None = None
    check: Callable[[], None] = _go_on
    """Called between layers; raises to break the forward off, with nothing published."""
    workspace: Workspace = field(default_factory=Workspace, compare=False)

    def observed_by(self, observer: Observer) -> NoGrad:
        """Return the same context with ``observer`` watching."""
        return replace(self, observer=observer)

    def checked_by(self, check: Callable[[], None]) -> NoGrad:
        """Return the same context with ``check`` called between layers."""
        return replace(self, check=check)

    def observe(self, layer: int | None, stage: str, values: F64) -> None:
        """Show a stage to the observer, if there is one."""
        if self.observer is not None:
            self.observer(layer, stage, values)
