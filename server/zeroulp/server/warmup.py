"""Compiling every kernel that serving needs, before the first call waits for one."""

from __future__ import annotations

import numpy as np

from zeroulp.model.cache.pool import BlockPool
from zeroulp.model.cache.transaction import Transaction
from zeroulp.model.composition.language_model import LanguageModel
from zeroulp.model.composition.text_segment import text_segment
from zeroulp.model.context import NoGrad
from zeroulp.model.probabilities import log_probabilities
from zeroulp.model.sampling import SamplingParameters, draw


def warm_up(model: LanguageModel, context: NoGrad) -> None:
    """Run one token through the model and draw one; nothing of it is kept."""
    cache = model.new_cache(BlockPool(model.configuration, 1))
    with Transaction(cache, 1) as transaction, context.team.awake():
        hidden = model.forward(context, [text_segment(transaction, np.zeros(1, np.int64))])
        z = model.logits(context, hidden)
    # They refer back to their cache, and would keep the values of a model that is replaced later.
    cache.layers.clear()
    log_probabilities(context, z)
    draw(z[0], SamplingParameters(top_p=0.5), 0, [0], 0)
