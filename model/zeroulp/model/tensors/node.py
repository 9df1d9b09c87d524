"""What a graph is made of: an object that is its own identity and counts the values it has held."""

from __future__ import annotations

from zeroulp.model.kernels.arrays import F64, I64
from zeroulp.model.packing import PackedMatrix


class Node:
    """A value of a fixed shape that operations read.

    ``revision`` advances with every new value; whatever was bound to an earlier one is stale. ``gradient``
    holds what backward passes have added up, for a node that ``learns``.
    """

    __slots__ = ("gradient", "learns", "revision", "shape")

    def __init__(self, shape: tuple[int, ...], learns: bool) -> None:
        self.shape = shape
        self.learns = learns
        self.revision = 0
        self.gradient: F64 | None = None

    @property
    def label(self) -> str:
        """What messages call the node."""
        raise NotImplementedError

    @property
    def tracked(self) -> bool:
        """Whether gradients go through this node."""
        return self.learns

    @property
    def matrix(self) -> PackedMatrix:
        """The values as packed weights ``[in, out]``; raises ``TypeError`` for another rank."""
        raise NotImplementedError

    @property
    def vector(self) -> F64:
        """The values of a gain ``[D]``; raises ``TypeError`` for another rank."""
        raise NotImplementedError

    def rows(self, ids: I64) -> F64:
        """Return copies of the rows ``[n, D]`` that ``ids [n]``, all in range, name."""
        raise NotImplementedError

    def add_gradient(self, more: F64) -> None:
        """Add what one backward pass found to ``gradient``."""
        self.gradient = more if self.gradient is None else self.gradient + more

    def clear_gradient(self) -> None:
        """Forget the gradient."""
        self.gradient = None
