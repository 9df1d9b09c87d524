"""The full forward over a whole sequence, without a session."""

from __future__ import annotations

from collections.abc import Sequence

from zeroulp.model.cache.pool import BlockPool, blocks_for
from zeroulp.model.cache.transaction import Transaction
from zeroulp.model.composition.language_model import LanguageModel
from zeroulp.model.composition.segment import segment_of
from zeroulp.model.context import NoGrad
from zeroulp.model.kernels.arrays import F64


def full_forward(model: LanguageModel, context: NoGrad, ids: Sequence[int]) -> F64:
    """Return the logits ``[T, V]`` of all positions of ``ids``, computed in one step."""
    tokens = model.check_tokens(ids, field="ids")
    model.check_room(0, len(ids), field="ids")
    pool = BlockPool(model.configuration, blocks_for(len(ids)))
    with Transaction(model.new_cache(pool), len(ids)) as transaction:
        hidden = model.forward(context, [segment_of(model.configuration, transaction, tokens)])
        return model.logits(context, hidden)
