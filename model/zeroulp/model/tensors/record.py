"""How one value was computed: what a backward pass needs of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from zeroulp.model.compute_team import ComputeTeam
from zeroulp.model.errors import GraphReleased, StaleRevision
from zeroulp.model.kernels.arrays import F64
from zeroulp.model.tensors.node import Node

Derivative = Callable[..., Sequence[F64]]
"""Of one operation: takes a team, the result's gradient and the operation's arguments, and returns a gradient
for each node among the arguments, in their order."""


class Record:
    """An operation's arguments, each node among them with the revision that was read."""

    __slots__ = ("_arguments", "_derivative", "_team", "parents")

    def __init__(self, team: ComputeTeam, derivative: Derivative, arguments: tuple[Any, ...]) -> None:
        self._team = team
        self._derivative = derivative
        self._arguments: tuple[Any, ...] | None = arguments
        self.parents = tuple((node, node.revision) for node in arguments if isinstance(node, Node))

    def check(self) -> None:
        """Raise ``GraphReleased`` or ``StaleRevision`` if a gradient would not be that of the forward."""
        if self._arguments is None:
            raise GraphReleased(
                "this graph was released by an earlier backward; run the forward again, "
                "or keep the graph with keep_graph=True"
            )
        for node, revision in self.parents:
            if node.revision != revision:
                raise StaleRevision(
                    f"{node.label} is at revision {node.revision}; the forward read revision {revision}"
                )

    def gradients(self, dy: F64) -> list[tuple[Node, F64]]:
        """Return each parent with its gradient."""
        assert self._arguments is not None, "checked before"
        found = self._derivative(self._team, dy, *self._arguments)
        return [(node, gradient) for (node, _), gradient in zip(self.parents, found, strict=True)]

    def release(self) -> None:
        """Let everything go that the forward kept."""
        self._arguments = None
        self.parents = ()
