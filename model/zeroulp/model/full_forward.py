"""The full forward over a whole sequence, without a session."""

from __future__ import annotations

from collections.abc import Sequence

from zeroulp.model.composition.finite import require_finite
from zeroulp.model.composition.language_model import LanguageModel
from zeroulp.model.composition.text_batch import TextBatch
from zeroulp.model.context import NoGrad
from zeroulp.model.kernels.arrays import F64


def full_forward(model: LanguageModel, context: NoGrad, ids: Sequence[int]) -> F64:
    """Return the logits ``[T, V]`` of all positions of ``ids``, computed in one pass."""
    model.check_tokens(ids, field="ids")
    model.check_room(0, len(ids), field="ids")
    z: F64 = model.batch_logits(context, TextBatch.of([ids])).raw[0]  # [1, T, V] -> [T, V]
    require_finite(None, "logits", z)
    return z
