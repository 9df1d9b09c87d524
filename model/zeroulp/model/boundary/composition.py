"""The explicit composition of a full pass: encoder, backbone, tied head and loss, one after the other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from zeroulp.model import operations
from zeroulp.model.boundary.fixture import Fixture
from zeroulp.model.composition.encoder import TextEncoder
from zeroulp.model.composition.head import TextOutputHead
from zeroulp.model.composition.prepared import PreparedInput, prepare
from zeroulp.model.context import Execution
from zeroulp.model.tensors import Node, Tensor


@dataclass(frozen=True, slots=True, eq=False)
class Composition:
    """``X [B, T, D]`` as it was prepared, the head, its ``Z [B, T, V]``, and the mean loss in nats."""

    prepared: PreparedInput
    head: TextOutputHead
    logits: Tensor
    loss: Tensor

    @classmethod
    def of(
        cls,
        context: Execution[Any],
        fixture: Fixture,
        *,
        fixed_embeddings: bool = False,
        fixed_head: bool = False,
    ) -> Composition:
        """Run the fixture's batch; what is fixed is detached, so that no gradient goes back through it."""
        model, batch = fixture.model, fixture.batch
        ids, valid = fixture.targets.rows(batch, model.configuration.vocabulary_size)
        prepared = TextEncoder(model.table, batch).encode(context, model.backbone)
        if fixed_embeddings:
            embeddings = prepared.embeddings.detach()
            prepared = prepare(
                context, model.backbone, embeddings, batch.layout, "text, detached", [model.table]
            )
        head = TextOutputHead(model.table.detach() if fixed_head else model.table)
        hidden = model.backbone.forward(context, prepared)
        logits = head.batch_logits(context, hidden, batch.layout)
        rows = operations.to_rows(context, logits, batch.layout.cells)  # [active cells, V]
        loss = context.leave(operations.mean_nll(context, rows, ids, valid))
        return cls(prepared, head, logits, loss)

    @property
    def lookup_table(self) -> Node:
        """The node whose rows were looked up, as the prepared input is bound to it."""
        (table,) = self.prepared.producers
        return table
