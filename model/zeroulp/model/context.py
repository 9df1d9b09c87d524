"""How a forward is executed: explicit, and passed down to every operation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Protocol, TypeVar

from zeroulp.model.compute_team import ComputeTeam
from zeroulp.model.errors import TrackedInput
from zeroulp.model.kernels.arrays import F64
from zeroulp.model.tensors.node import Node
from zeroulp.model.tensors.record import Derivative
from zeroulp.model.tensors.tensor import Tensor
from zeroulp.model.workspace import Workspace

Rows = TypeVar("Rows", F64, Tensor)
"""What a context's operations work on: bare arrays without a graph, tensors under recording."""


class Observer(Protocol):
    """Is shown every named stage's values ``[rows, features]`` as they are computed.

    Must not change them, and must copy what it wants to keep: the memory is used again.
    """

    def __call__(self, layer: int | None, stage: str, values: F64) -> None:
        """See one stage; ``layer`` is None outside the blocks."""


class Memory(Protocol):
    """Where the arrays of a forward come from."""

    def rows(self, rows: int, features: int) -> F64:
        """Return an uninitialised array ``[rows, features]``."""


class Execution(Protocol[Rows]):
    """What operations and blocks need of a context; the composition is written once against this."""

    @property
    def team(self) -> ComputeTeam:
        """Whose threads compute."""

    def enter(self, tensor: Tensor) -> Rows:
        """Return a tensor as this context's operations take it; raises ``TrackedInput``."""

    def leave(self, rows: Rows) -> Tensor:
        """Return rows in memory of their own as a tensor."""

    @property
    def workspace(self) -> Memory:
        """Where results are computed, and what only the present operation needs."""

    @property
    def records(self) -> bool:
        """Whether results keep a graph."""

    def own(self, rows: Rows) -> Rows:
        """Return rows in memory of their own, that no later operation uses again."""

    def values(self, rows: Rows) -> F64:
        """Return the bare values."""

    def result(self, values: F64, derivative: Derivative, *arguments: Any) -> Rows:
        """Return an operation's values, with what its gradient needs where that is recorded."""

    def results(
        self, values: list[F64], derivative: Derivative, x: Rows, weights: Sequence[Node]
    ) -> list[Rows]:
        """Return the values of one operation of x with each of the weights, in their order."""

    def dropout(self, rows: Rows) -> Rows:
        """Return the rows with some of them dropped, where the context says so."""

    def through(
        self, step: Callable[[Execution[Rows], Rows], Rows], x: Rows, learned: Sequence[Node]
    ) -> Rows:
        """Return ``step(context, x)`` for one block, whose parameters are ``learned``."""

    def check(self) -> None:
        """Raise if the forward is not wanted any more; called between layers."""

    def observe(self, layer: int | None, stage: str, rows: Rows) -> None:
        """Show a stage to the observer, if there is one."""

    def again(self) -> Execution[Rows]:
        """Return a context that does once more what this one does next."""

    def observed_by(self, observer: Observer) -> Execution[Rows]:
        """Return the same context with ``observer`` watching."""


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
    records: ClassVar[bool] = False

    def again(self) -> NoGrad:
        """Return itself: nothing is drawn."""
        return self

    def observed_by(self, observer: Observer) -> NoGrad:
        """Return the same context with ``observer`` watching."""
        return replace(self, observer=observer)

    def checked_by(self, check: Callable[[], None]) -> NoGrad:
        """Return the same context with ``check`` called between layers."""
        return replace(self, check=check)

    def enter(self, tensor: Tensor) -> F64:
        """Return the tensor's values; raises ``TrackedInput`` for one with a history to lose."""
        if tensor.tracked:
            raise TrackedInput(
                f"{tensor.label} was encoded under recording; execution without a graph takes none of it: "
                "detach it, or encode it without a graph"
            )
        return tensor.raw

    def leave(self, rows: F64) -> Tensor:
        """Return rows in memory of their own as a tensor without a graph."""
        return Tensor.of(rows)

    def own(self, rows: F64) -> F64:
        """Return a copy: the workspace is used again."""
        return rows.copy()

    def values(self, rows: F64) -> F64:
        """Return the rows themselves."""
        return rows

    def result(self, values: F64, derivative: Derivative, *arguments: Any) -> F64:
        """Return the values: nothing is kept of how they came about."""
        return values

    def results(
        self, values: list[F64], derivative: Derivative, x: F64, weights: Sequence[Node]
    ) -> list[F64]:
        """Return the values."""
        return values

    def dropout(self, rows: F64) -> F64:
        """Return the rows: dropping is for training."""
        return rows

    def through(self, step: Callable[[Execution[F64], F64], F64], x: F64, learned: Sequence[Node]) -> F64:
        """Return ``step(self, x)``, in the workspace's other half."""
        self.workspace.turn()
        return step(self, x)

    def observe(self, layer: int | None, stage: str, rows: F64) -> None:
        """Show a stage to the observer, if there is one."""
        if self.observer is not None:
            self.observer(layer, stage, rows)
