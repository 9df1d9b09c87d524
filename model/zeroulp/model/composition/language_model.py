"""A decoder language model: text encoder, backbone and tied head over one set of parameters."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from zeroulp.model.cache.pool import BlockPool
from zeroulp.model.cache.sequence_cache import SequenceCache
from zeroulp.model.composition.backbone import DecoderBackbone
from zeroulp.model.composition.block import Block
from zeroulp.model.composition.encoder import TextEncoder
from zeroulp.model.composition.finite import require_finite
from zeroulp.model.composition.head import TextOutputHead
from zeroulp.model.composition.segment import Segment
from zeroulp.model.configuration import Configuration
from zeroulp.model.context import NoGrad
from zeroulp.model.errors import ContextFull, EmptyPrompt, TokenOutOfRange
from zeroulp.model.kernels.arrays import F64, I64
from zeroulp.model.parameters import TABLE, ParameterInventory


class LanguageModel:
    """Encoder and head borrow the same table node: lookup and output weights are one tensor."""

    def __init__(self, configuration: Configuration, parameters: ParameterInventory) -> None:
        self.configuration = configuration
        self.parameters = parameters
        table = parameters[TABLE]
        blocks = [Block(configuration, parameters, layer) for layer in range(configuration.layers)]
        self.encoder = TextEncoder(table)
        self.backbone = DecoderBackbone(configuration, blocks, parameters["final_norm.gain"])
        self.head = TextOutputHead(table)

    def new_cache(self, pool: BlockPool) -> SequenceCache:
        """Return an empty cache that is bound to the present parameters."""
        return SequenceCache(pool, self.parameters, self.configuration.layers)

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

    def forward(self, context: NoGrad, segments: Sequence[Segment]) -> F64:
        """Return ``H [rows, D]`` for all segments' rows.

        Raises ``ParametersChanged`` for a cache of another model before any block runs, and ``NonFinite``,
        with no row published.
        """
        for segment in segments:
            segment.transaction.cache.check_owner(self.parameters)
        x = self.encoder.encode(np.concatenate([segment.ids for segment in segments]))  # [rows, D]
        require_finite(None, "embedding", x)
        context.observe(None, "embedding", x)
        return self.backbone.forward(context, x, segments)

    def logits(self, context: NoGrad, hidden: F64) -> F64:
        """Return finite logits ``[rows, V]``; raises ``NonFinite``."""
        z = self.head.logits(context, hidden)
        require_finite(None, "logits", z)
        return z
