"""A decoder language model: text encoder, backbone and tied head over one set of parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from zeroulp.model import operations
from zeroulp.model.cache.pool import BlockPool
from zeroulp.model.cache.sequence_cache import SequenceCache
from zeroulp.model.composition.backbone import DecoderBackbone
from zeroulp.model.composition.block import Block
from zeroulp.model.composition.encoder import TextEncoder
from zeroulp.model.composition.finite import require_finite
from zeroulp.model.composition.head import TextOutputHead
from zeroulp.model.composition.targets import Targets
from zeroulp.model.composition.text_batch import TextBatch
from zeroulp.model.composition.text_segment import TextSegment
from zeroulp.model.configuration import Configuration
from zeroulp.model.context import Execution, NoGrad
from zeroulp.model.errors import ContextFull, EmptyPrompt, TokenOutOfRange
from zeroulp.model.kernels.arrays import F64, I64
from zeroulp.model.parameters import TABLE, ParameterInventory
from zeroulp.model.tensors.tensor import Tensor


class LanguageModel:
    """Encoder and head borrow the same table node: lookup and output weights are one tensor."""

    def __init__(self, configuration: Configuration, parameters: ParameterInventory) -> None:
        self.configuration = configuration
        self.parameters = parameters
        self.table = parameters[TABLE]
        blocks = [Block(configuration, parameters, layer) for layer in range(configuration.layers)]
        self.backbone = DecoderBackbone(configuration, blocks, parameters["final_norm.gain"])
        self.head = TextOutputHead(self.table)

    def new_cache(self, pool: BlockPool) -> SequenceCache:
        """Return an empty cache that is bound to the present parameters."""
        return SequenceCache(pool, self.backbone.nodes, self.configuration.layers, producers=[self.table])

    def check_tokens(self, ids: Sequence[int], *, field: str, allow_empty: bool = False) -> I64:
        """Return the ids as an array ``[n]``; raises ``EmptyPrompt`` or ``TokenOutOfRange``."""
        if not ids and not allow_empty:
            raise EmptyPrompt(f"{field} has no tokens; at least one is needed", field=field)
        V = self.configuration.vocabulary_size
        for index, token in enumerate(ids):
            if not 0 <= token < V:
                raise TokenOutOfRange(
                    f"{field}[{index}] is {token}; the vocabulary has the ids 0 to {V - 1}",
                    field=f"{field}[{index}]",
                    token=token,
                    vocabulary_size=V,
                )
        return np.array(ids, np.int64)

    def check_room(self, position: int, count: int, *, field: str) -> None:
        """Raise ``ContextFull`` if ``count`` tokens from ``position`` do not fit the positions."""
        limit = self.configuration.max_positions
        if position + count > limit:
            raise ContextFull(
                f"{count} tokens from position {position} end at {position + count}; "
                f"the model has {limit} positions",
                field=field,
                requested_positions=position + count,
                max_positions=limit,
            )

    def forward(self, context: NoGrad, segments: Sequence[TextSegment]) -> F64:
        """Return ``H [rows, D]`` for all segments' rows, over their caches.

        Raises ``ParametersChanged`` for a cache of another model before any block runs, and ``NonFinite``,
        with no row published.
        """
        inputs = [
            TextEncoder(self.table, segment.batch).encode(context, self.backbone) for segment in segments
        ]
        return self.backbone.extend(context, inputs, [segment.transaction for segment in segments])

    def logits(self, context: NoGrad, hidden: F64) -> F64:
        """Return finite logits ``[rows, V]``; raises ``NonFinite``."""
        z = self.head.logits(context, hidden)
        require_finite(None, "logits", z)
        return z

    def batch_logits(self, context: Execution[Any], batch: TextBatch) -> Tensor:
        """Return ``Z [B, T, V]`` of a full pass over a batch: encoder, backbone and head in one call.

        What is not there in the batch's layout is +0.0. Raises ``TokenOutOfRange``, ``InputRefused`` before
        any block runs, and ``NonFinite``.
        """
        hidden = self._hidden(context, batch)
        return self.head.batch_logits(context, hidden, batch.layout)

    def loss(self, context: Execution[Any], batch: TextBatch, targets: Targets) -> Tensor:
        """Return the mean NLL in nats over the targets that count, as a value without axes.

        The targets are checked before anything is computed: see `Targets.rows`.
        """
        ids, valid = targets.rows(batch, self.configuration.vocabulary_size)
        hidden = operations.to_rows(context, self._hidden(context, batch), batch.layout.cells)
        logits = self.head.logits(context, hidden)
        return context.leave(operations.mean_nll(context, logits, ids, valid))

    def _hidden(self, context: Execution[Any], batch: TextBatch) -> Tensor:
        prepared = TextEncoder(self.table, batch).encode(context, self.backbone)
        return self.backbone.forward(context, prepared)
