"""Text to vectors: the source side of the boundary."""

from __future__ import annotations

from zeroulp.model import operations
from zeroulp.model.kernels.arrays import F64, I64
from zeroulp.model.parameters import Parameter


class TextEncoder:
    """Looks ids up in the table that it borrows."""

    def __init__(self, table: Parameter) -> None:
        self.table = table

    def encode(self, ids: I64) -> F64:
        """Return ``X [rows, D]`` for ids ``[rows]`` that were checked against the vocabulary."""
        return operations.embedding(self.table, ids)
