"""Named learned parameters: nodes with an identity and a value revision."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zeroulp.model.configuration import Configuration
from zeroulp.model.errors import UnsupportedModel
from zeroulp.model.kernels.arrays import F64, I64
from zeroulp.model.kernels.lookup import lookup
from zeroulp.model.packing import PackedMatrix, pack
from zeroulp.model.tensors.node import Node

TABLE = "token_embedding.weight"


Values = NDArray[Any] | PackedMatrix
"""What a parameter is made from: values, or a matrix that is packed already (the table as ``[D, V]``)."""


def shape_of(name: str, values: Values) -> tuple[int, ...]:
    """Return the shape that a parameter of these values has."""
    if not isinstance(values, PackedMatrix):
        return values.shape
    return (values.width, values.depth) if name == TABLE else (values.depth, values.width)


class Parameter(Node):
    """One learned tensor with a name."""

    __slots__ = ("name", "stored")

    def __init__(self, name: str, values: Values) -> None:
        super().__init__(shape_of(name, values), learns=True)
        self.name = name
        self.stored = self._store(values)

    @property
    def label(self) -> str:
        """What messages call the parameter."""
        return f"parameter {self.name}"

    def _store(self, values: Values) -> PackedMatrix | F64:
        if isinstance(values, PackedMatrix):
            return values
        if values.ndim == 1:
            return values.astype(np.float64)
        # The table is looked up by row and multiplied transposed: its panels run over the vocabulary.
        return pack(values.T if self.name == TABLE else values)

    def set_value(self, values: Values) -> None:
        """Replace the values; everything that was bound to the earlier revision becomes stale."""
        shape = shape_of(self.name, values)
        if shape != self.shape:
            raise ValueError(f"{self.name}: shape {shape} given, {self.shape} is allowed")
        self.adopt(self._store(values))

    def adopt(self, stored: PackedMatrix | F64) -> None:
        """Replace the values by what another node of this shape stores, shared with it and not copied."""
        self.stored = stored
        self.revision += 1

    def is_finite(self) -> bool:
        """Tell whether no value is a NaN or an infinity."""
        if isinstance(self.stored, PackedMatrix):
            return self.stored.is_finite()
        return bool(np.isfinite(self.stored).all())

    @property
    def matrix(self) -> PackedMatrix:
        """The packed weights of a matrix: ``[in, out]``, for the table ``[D, V]``."""
        if not isinstance(self.stored, PackedMatrix):
            raise TypeError(f"{self.name} is a vector")
        return self.stored

    @property
    def vector(self) -> F64:
        """The values of a gain ``[D]``."""
        if isinstance(self.stored, PackedMatrix):
            raise TypeError(f"{self.name} is a matrix")
        return self.stored

    def rows(self, ids: I64) -> F64:
        """Return copies of the table's rows ``[n, D]`` that ``ids [n]`` name."""
        x = np.empty((ids.size, self.shape[1]))
        lookup(self.matrix.panels, ids, x)
        return x

    def detach(self) -> Parameter:
        """Return a node of its own that shares the present values and does not learn."""
        cut = Parameter.__new__(Parameter)
        Node.__init__(cut, self.shape, learns=False)
        cut.name, cut.stored = self.name, self.stored
        return cut

    def values(self) -> F64:
        """Return the values as a new float64 array of ``shape``."""
        if not isinstance(self.stored, PackedMatrix):
            return self.stored.copy()
        values = self.stored.unpack()
        return np.ascontiguousarray(values.T) if self.name == TABLE else values

    @property
    def size(self) -> int:
        """Learned scalars."""
        return int(np.prod(self.shape))

    @property
    def nbytes(self) -> int:
        """Bytes of storage."""
        return self.stored.nbytes


class ParameterInventory(Mapping[str, Parameter]):
    """All parameters of one model by name, in initialisation order; the tied table stands once."""

    def __init__(self, configuration: Configuration, values: Iterable[tuple[str, Values]]) -> None:
        shapes = configuration.parameter_shapes()
        self._nodes: dict[str, Parameter] = {}
        for name, given in values:
            node = Parameter(name, given)
            if shapes.get(name) != node.shape:
                raise UnsupportedModel(f"parameter {name}: shape {node.shape}, expected {shapes.get(name)}")
            self._nodes[name] = node
        missing = [name for name in shapes if name not in self._nodes]
        if missing:
            raise UnsupportedModel(f"parameter {missing[0]} is missing ({len(missing)} in all)")

    def __getitem__(self, name: str) -> Parameter:
        return self._nodes[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._nodes)

    def __len__(self) -> int:
        return len(self._nodes)

    @property
    def count(self) -> int:
        """Learned scalars in all."""
        return sum(node.size for node in self._nodes.values())

    @property
    def nbytes(self) -> int:
        """Bytes of storage in all."""
        return sum(node.nbytes for node in self._nodes.values())

    @property
    def revision(self) -> int:
        """Changed values in all: it grows whenever any parameter's value is replaced."""
        return sum(node.revision for node in self._nodes.values())

    def revisions(self) -> tuple[tuple[Parameter, int], ...]:
        """Return each node with its present revision: what a cache binds itself to."""
        return tuple((node, node.revision) for node in self._nodes.values())

    def digest(self) -> str:
        """Return the SHA-256 over each name, shape and little-endian f64 value, in inventory order."""
        digest = hashlib.sha256()
        for node in self._nodes.values():
            digest.update(f"{node.name} {node.shape}\n".encode())
            digest.update(node.values().astype("<f8", copy=False).tobytes())
        return digest.hexdigest()
