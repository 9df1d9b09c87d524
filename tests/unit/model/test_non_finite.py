"""A NaN or an infinity is named by layer and stage, and nothing of the call is published."""

from __future__ import annotations

import math

import numpy as np
import pytest

from unit.model import models
from zeroulp.model.cache.sequence_cache import SequenceCache
from zeroulp.model.cache.transaction import Transaction
from zeroulp.model.composition.language_model import LanguageModel
from zeroulp.model.composition.text_segment import text_segment
from zeroulp.model.context import NoGrad
from zeroulp.model.errors import NonFinite
from zeroulp.model.full_forward import full_forward
from zeroulp.model.parameters import TABLE

STAGES = {
    "attention_norm.gain": "attention_norm",
    "attention.query.weight": "query",
    "attention.key.weight": "key",
    "attention.value.weight": "value",
    "attention.output.weight": "attention_output",
    "ffn_norm.gain": "ffn_norm",
    "ffn.gate.weight": "gate",
    "ffn.up.weight": "up",
    "ffn.down.weight": "down",
}
IDS = [3, 1, 4, 1, 5]


@pytest.fixture
def model() -> LanguageModel:
    return models.with_gains(models.SMALL, 21)


def spoil(model: LanguageModel, name: str, bad: float, *place: int) -> None:
    values = model.parameters[name].values()
    values[place or (-1,) * values.ndim] = bad
    model.parameters[name].set_value(values)


def scale(model: LanguageModel, name: str, factor: float) -> None:
    model.parameters[name].set_value(model.parameters[name].values() * factor)


def refused(model: LanguageModel, context: NoGrad, ids: list[int] = IDS) -> tuple[int | None, str, int]:
    """Layer, stage and row of the error; every way of computing must end in the same."""
    with pytest.raises(NonFinite) as alone:
        full_forward(model, context, ids)
    cache = model.new_cache(models.pool_for(model, len(ids)))
    with pytest.raises(NonFinite) as cached:
        models.append(model, context, cache, ids)
    assert (cache.length, cache.capacity) == (0, 0)
    assert cached.value.metadata == alone.value.metadata
    assert cached.value.row == alone.value.row
    layer = alone.value.metadata.get("layer")
    return None if layer is None else int(layer), alone.value.metadata["stage"], alone.value.row


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("layer", range(models.SMALL.layers))
@pytest.mark.parametrize(("name", "stage"), STAGES.items())
def test_a_bad_weight_is_named(
    model: LanguageModel, context: NoGrad, name: str, stage: str, layer: int, bad: float
) -> None:
    spoil(model, f"blocks.{layer}.{name}", bad)
    assert refused(model, context) == (layer, stage, 0)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_bad_weights_outside_the_blocks_are_named(model: LanguageModel, context: NoGrad, bad: float) -> None:
    spoil(model, "final_norm.gain", bad)
    assert refused(model, context) == (None, "final_norm", 0)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_bad_row_of_the_table(model: LanguageModel, context: NoGrad, bad: float) -> None:
    spoil(model, TABLE, bad, 4, 7)
    assert refused(model, context) == (None, "embedding", 2)  # where id 4 stands
    assert refused(model, context, [3, 1]) == (None, "logits", 0)  # its logit is asked for all the same


def test_the_message_tells_the_place(model: LanguageModel, context: NoGrad) -> None:
    spoil(model, "blocks.1.ffn.up.weight", math.nan)
    with pytest.raises(NonFinite, match="not finite appeared in layer 1, up; nothing was committed"):
        full_forward(model, context, IDS)


def test_the_first_layer_is_named_and_not_what_follows(model: LanguageModel, context: NoGrad) -> None:
    spoil(model, "blocks.0.ffn.down.weight", math.inf)
    spoil(model, "blocks.1.attention.query.weight", math.nan)
    spoil(model, "final_norm.gain", math.nan)
    assert refused(model, context) == (0, "down", 0)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_scores_that_overflow_are_caught_though_softmax_would_hide_them(
    model: LanguageModel, context: NoGrad, sign: float
) -> None:
    # finite queries and keys, infinite products: -inf alone would just weigh nothing
    scale(model, "blocks.1.attention.query.weight", 1e200)
    scale(model, "blocks.1.attention.key.weight", sign * 1e200)
    assert refused(model, context)[:2] == (1, "attention")


def test_a_score_that_overflows_to_minus_infinity_for_one_key(model: LanguageModel, context: NoGrad) -> None:
    scale(model, "blocks.0.attention.query.weight", 1e160)
    scale(model, "blocks.0.attention.key.weight", 1e148)
    seen = []
    for ids in ([a, b] for a in range(29) for b in range(29)):
        try:
            full_forward(model, context, ids)
        except NonFinite as error:
            seen.append(error.metadata["stage"])
    assert set(seen) == {"attention"}
    assert 0 < len(seen) <= 29 * 29


def test_other_overflows(model: LanguageModel, context: NoGrad) -> None:
    scale(model, "blocks.0.ffn.gate.weight", 1e200)
    scale(model, "blocks.0.ffn.up.weight", 1e200)
    assert refused(model, context)[:2] == (0, "swiglu")


def test_overflow_of_the_rotation(context: NoGrad) -> None:
    model = models.seeded(models.SMALL, 1)
    for layer in range(2):
        weight = np.full((12, 12), 1e306)
        model.parameters[f"blocks.{layer}.attention.query.weight"].set_value(weight)
    model.parameters[TABLE].set_value(np.ones((29, 12)))
    scale(model, "blocks.0.attention_norm.gain", 14.5)
    assert refused(model, context, [1, 1])[:2] == (0, "query_rope")


@pytest.mark.parametrize(
    ("name", "layer", "stage"),
    [
        (TABLE, 0, "attention_norm"),
        ("blocks.1.attention.output.weight", 1, "ffn_norm"),
        ("blocks.0.ffn.down.weight", 1, "attention_norm"),
        ("blocks.1.ffn.down.weight", None, "final_norm"),
    ],
)
def test_a_stream_whose_squares_overflow(
    model: LanguageModel, context: NoGrad, name: str, layer: int | None, stage: str
) -> None:
    # the norm of such a row would be zeros, which are finite
    scale(model, name, 1e200)
    assert refused(model, context)[:2] == (layer, stage)


def test_the_row_tells_whose_fault_it_was(model: LanguageModel, context: NoGrad) -> None:
    spoil(model, TABLE, math.nan, 9, 0)
    pool = models.pool_for(model, 5, 5, 5)
    caches = [model.new_cache(pool) for _ in range(3)]
    with pytest.raises(NonFinite) as error:
        step(model, context, caches, [[1, 2], [3, 4, 9], [9]])
    assert error.value.row == 4
    assert [cache.length for cache in caches] == [0, 0, 0]
    pool.check_integrity([])


def test_a_sequence_with_bad_rows_does_not_touch_the_others(model: LanguageModel, context: NoGrad) -> None:
    # whoever shares a step with it is computed again without it, to the same bits
    ids = [[5, 6, 7], [8, 8]]
    want = [full_forward(model, context, some).tobytes() for some in ids]
    pool = models.pool_for(model, 5, 5)
    caches = [model.new_cache(pool) for _ in range(2)]
    poisoned = model.new_cache(models.pool_for(model, 5))
    models.append(model, context, poisoned, [1, 2])
    for array in poisoned.layers[1].blocks:
        array[...] = math.nan
    with pytest.raises(NonFinite) as error:
        step(model, context, [caches[0], poisoned, caches[1]], [ids[0], [3], ids[1]])
    assert error.value.metadata == {"layer": "1", "stage": "attention"}
    assert error.value.row == 3
    got = [
        models.append(model, context, cache, some).tobytes() for cache, some in zip(caches, ids, strict=True)
    ]
    assert got == want


def step(model: LanguageModel, context: NoGrad, caches: list[SequenceCache], ids: list[list[int]]) -> None:
    calls = [Transaction(cache, len(some)) for cache, some in zip(caches, ids, strict=True)]
    try:
        segments = [text_segment(call, np.array(some)) for call, some in zip(calls, ids, strict=True)]
        model.forward(context, segments)
    finally:
        for call in calls:
            call.rollback()


def test_observed_stages_are_all_and_in_order(model: LanguageModel, context: NoGrad) -> None:
    seen: list[tuple[int | None, str, tuple[int, ...]]] = []
    watched = context.observed_by(lambda layer, stage, values: seen.append((layer, stage, values.shape)))
    z = full_forward(model, watched, IDS)
    assert z.tobytes() == full_forward(model, context, IDS).tobytes()
    block = [
        ("attention_norm", 12), ("query", 12), ("key", 6), ("value", 6), ("query_rope", 12), ("key_rope", 6),
        ("attention", 12), ("attention_output", 12), ("attention_residual", 12), ("ffn_norm", 12),
        ("gate", 7), ("up", 7), ("swiglu", 7), ("down", 12), ("ffn_residual", 12),
    ]  # fmt: skip
    assert seen == [
        (None, "embedding", (5, 12)),
        *((layer, stage, (5, width)) for layer in range(2) for stage, width in block),
        (None, "final_norm", (5, 12)),
        (None, "logits", (5, 29)),
    ]
