"""Execution that records what its gradients need."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from zeroulp.model import operations
from zeroulp.model.compute_team import ComputeTeam
from zeroulp.model.context import Execution, Observer
from zeroulp.model.dropout import Dropout, Masks
from zeroulp.model.kernels.arrays import F64
from zeroulp.model.tensors.graph import gradients_of
from zeroulp.model.tensors.node import Node
from zeroulp.model.tensors.record import Derivative, Record
from zeroulp.model.tensors.tensor import Tensor


class Fresh:
    """Memory of its own for every array: the graph keeps results."""

    def rows(self, rows: int, features: int) -> F64:
        """Return an uninitialised array ``[rows, features]``."""
        return np.empty((rows, features))


@dataclass(frozen=True, slots=True)
class Recording:
    """Execution by the threads of ``team`` that keeps a graph; values have the bits of execution without one.

    With ``recompute`` only what passes between blocks is kept, and a block's intermediates are computed
    again in the backward pass: the same values and gradients for a fraction of the memory.
    """

    team: ComputeTeam
    observer: Observer | None = None
    recompute: bool = False
    masks: Masks = field(default_factory=Masks, compare=False)
    records: ClassVar[bool] = True
    workspace: ClassVar[Fresh] = Fresh()

    @classmethod
    def with_dropout(cls, team: ComputeTeam, dropout: Dropout, *, recompute: bool = False) -> Recording:
        """Return a context that drops; ``masks`` tells afterwards what it dropped."""
        return cls(team, recompute=recompute, masks=Masks(dropout))

    def again(self) -> Recording:
        """Return a context that draws the same masks as this one does next."""
        return replace(self, masks=self.masks.branch())

    def observed_by(self, observer: Observer) -> Recording:
        """Return the same context with ``observer`` watching."""
        return replace(self, observer=observer)

    def observe(self, layer: int | None, stage: str, rows: Tensor) -> None:
        """Show a stage to the observer, if there is one."""
        if self.observer is not None:
            self.observer(layer, stage, rows.raw)

    def check(self) -> None:
        """Go on: nobody breaks a recorded forward off."""

    def enter(self, tensor: Tensor) -> Tensor:
        """Return the tensor itself, still connected to what it came from."""
        return tensor

    def leave(self, rows: Tensor) -> Tensor:
        """Return the result itself."""
        return rows

    def own(self, rows: Tensor) -> Tensor:
        """Return the rows: every result has memory of its own."""
        return rows

    def values(self, rows: Tensor) -> F64:
        """Return the tensor's values."""
        return rows.raw

    def result(self, values: F64, derivative: Derivative, *arguments: Any) -> Tensor:
        """Return the values as a tensor, recorded if gradients can go through one of the arguments."""
        if any(isinstance(node, Node) and node.tracked for node in arguments):
            return Tensor.of(values, Record(self.team, derivative, arguments))
        return Tensor.of(values)

    def results(
        self, values: list[F64], derivative: Derivative, x: Tensor, weights: Sequence[Node]
    ) -> list[Tensor]:
        """Return the values as tensors, each recorded as `result` does."""
        return [self.result(y, derivative, x, weight) for y, weight in zip(values, weights, strict=True)]

    def dropout(self, rows: Tensor) -> Tensor:
        """Return the rows times the next mask, if this context drops."""
        mask = self.masks.next(rows.shape)
        return rows if mask is None else operations.masked(self, rows, mask)

    def through(
        self, step: Callable[[Execution[Tensor], Tensor], Tensor], x: Tensor, learned: Sequence[Node]
    ) -> Tensor:
        """Return ``step(self, x)``; with ``recompute`` recorded as one operation of x and ``learned``."""
        if not self.recompute:
            return step(self, x)
        again = replace(self.again(), observer=None)
        # What the step records goes away with its result: only the values are kept.
        values = step(self, x.detach(learns=True)).raw
        return self.result(values, _Again(again, step), x, *learned)


@dataclass(frozen=True, slots=True)
class _Again:
    """The derivative of a step that is run once more."""

    context: Recording
    step: Callable[[Execution[Tensor], Tensor], Tensor]

    def __call__(self, team: ComputeTeam, dy: F64, x: Tensor, *learned: Node) -> Sequence[F64]:
        leaf = x.detach(learns=True)
        return gradients_of(self.step(self.context.again(), leaf), dy, [leaf, *learned])
