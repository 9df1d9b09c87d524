"""Text to vectors: the source side of the boundary."""

from __future__ import annotations

from typing import Any

from zeroulp.model import operations
from zeroulp.model.composition.backbone import DecoderBackbone
from zeroulp.model.composition.prepared import PreparedInput, prepare
from zeroulp.model.composition.text_batch import TextBatch
from zeroulp.model.context import Execution
from zeroulp.model.tensors.node import Node


class TextEncoder:
    """Looks a batch's ids up in the table that it borrows."""

    def __init__(self, table: Node, batch: TextBatch) -> None:
        self.table = table
        self.batch = batch

    def encode(self, context: Execution[Any], backbone: DecoderBackbone) -> PreparedInput:
        """Return ``X [B, T, D]``, prepared; raises ``TokenOutOfRange`` for an id without a row."""
        ids = self.batch.checked_ids(self.table.shape[0])  # [B * T]
        x = context.dropout(operations.embedding(context, self.table, ids))  # [B * T, D]
        embeddings = operations.to_batch(context, x, *self.batch.layout.shape)  # [B, T, D]
        return prepare(context, backbone, embeddings, self.batch.layout, "text", [self.table])
