"""Vectors to logits."""

from __future__ import annotations

from typing import Any

from zeroulp.model import operations
from zeroulp.model.composition.layout import SequenceLayout
from zeroulp.model.context import Execution, Rows
from zeroulp.model.errors import MalformedLayout
from zeroulp.model.tensors.node import Node
from zeroulp.model.tensors.tensor import Tensor


class TextOutputHead:
    """Multiplies by the transpose of the live table that it borrows; keeps no copy."""

    def __init__(self, table: Node) -> None:
        self.table = table

    def logits(self, context: Execution[Rows], hidden: Rows) -> Rows:
        """Return ``z [rows, V]`` for ``hidden [rows, D]``."""
        z = operations.tied_logits(context, hidden, self.table)
        context.observe(None, "logits", z)
        return z

    def batch_logits(self, context: Execution[Any], hidden: Tensor, layout: SequenceLayout) -> Tensor:
        """Return ``Z [B, T, V]`` for ``H [B, T, D]``; what is not there in the layout is +0.0.

        Raises ``MalformedLayout`` for a layout of another shape.
        """
        if hidden.shape[:2] != layout.shape:
            raise MalformedLayout(f"{hidden.label} was given for a layout of {list(layout.shape)}")
        z = self.logits(context, operations.to_rows(context, hidden, layout.cells))
        return operations.from_rows(context, z, layout.cells, *layout.shape)
