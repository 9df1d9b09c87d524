"""Values that a forward makes or is given."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from zeroulp.model.kernels.arrays import F64, I64
from zeroulp.model.packing import PackedMatrix, pack
from zeroulp.model.tensors.node import Node
from zeroulp.model.tensors.record import Record


class Tensor(Node):
    """float64 values of any shape; tracked if it learns or was recorded from something tracked."""

    __slots__ = ("_values", "record")

    def __init__(self, values: ArrayLike, *, learns: bool = False) -> None:
        self._values: F64 = np.array(values, np.float64, order="C")
        self.record: Record | None = None
        super().__init__(self._values.shape, learns)

    @classmethod
    def of(cls, values: F64, record: Record | None = None) -> Tensor:
        """Return a tensor of an array that nobody else writes to."""
        made = cls.__new__(cls)
        Node.__init__(made, values.shape, False)
        made._values = values
        made.record = record
        return made

    @property
    def label(self) -> str:
        """What messages call the node."""
        return f"a tensor of shape {list(self.shape)}"

    @property
    def values(self) -> F64:
        """The values, read-only: a new value comes through ``set_value``."""
        view = self._values.view()
        view.flags.writeable = False
        return view

    @property
    def raw(self) -> F64:
        """The values as kernels take them, not to be written to."""
        return self._values

    @property
    def tracked(self) -> bool:
        """Whether gradients go through this tensor."""
        return self.learns or self.record is not None

    def set_value(self, values: ArrayLike) -> None:
        """Replace the values; what read the earlier revision becomes stale. Raises ``ValueError``."""
        given = np.array(values, np.float64, order="C")
        if given.shape != self.shape:
            raise ValueError(f"shape {list(given.shape)} was given; {list(self.shape)} is allowed")
        self._values = given
        self.revision += 1

    def detach(self, *, learns: bool = False) -> Tensor:
        """Return a tensor of the same values, and a node of its own, that the graph does not reach."""
        cut = Tensor.of(self._values)
        cut.learns = learns
        return cut

    @property
    def matrix(self) -> PackedMatrix:
        """The values as packed weights ``[in, out]``."""
        return pack(self._of_rank(2))

    @property
    def vector(self) -> F64:
        """The values ``[D]``."""
        return self._of_rank(1)

    def rows(self, ids: I64) -> F64:
        """Return copies of the rows ``[n, D]`` that ``ids [n]`` name."""
        return self._of_rank(2)[ids]

    def _of_rank(self, rank: int) -> F64:
        if len(self.shape) != rank:
            raise TypeError(f"{self.label} was given; one of {rank} axes is needed")
        return self._values

    def item(self) -> float:
        """Return the value of a tensor with one."""
        return float(self._values.reshape(()))

    def __repr__(self) -> str:
        tracked = "tracked" if self.tracked else "untracked"
        return f"Tensor({list(self.shape)}, {tracked}, revision {self.revision})"
