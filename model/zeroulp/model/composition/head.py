"""Vectors to logits."""

from __future__ import annotations

from zeroulp.model import operations
from zeroulp.model.context import NoGrad
from zeroulp.model.kernels.arrays import F64
from zeroulp.model.parameters import Parameter


class TextOutputHead:
    """Multiplies by the transpose of the live table that it borrows; keeps no copy."""

    def __init__(self, table: Parameter) -> None:
        self.table = table

    def logits(self, context: NoGrad, hidden: F64) -> F64:
        """Return ``z [rows, V]`` for ``hidden [rows, D]``."""
        z = operations.tied_logits(context, hidden, self.table)
        context.observe(None, "logits", z)
        return z
