"""Calls over a model that fail, or that must be refused, leave cache and next logits as they were."""

from __future__ import annotations

import numpy as np
import pytest

from unit.model import models
from unit.model.models import state
from zeroulp.model.cache.transaction import Transaction
from zeroulp.model.composition.language_model import LanguageModel
from zeroulp.model.composition.text_segment import text_segment
from zeroulp.model.context import NoGrad
from zeroulp.model.errors import ParametersChanged
from zeroulp.model.full_forward import full_forward


@pytest.fixture
def model() -> LanguageModel:
    return models.with_gains(models.SMALL, 11)


def test_a_failed_call_leaves_the_next_logits_as_they_were(
    model: LanguageModel, context: NoGrad, rng: np.random.Generator
) -> None:
    ids = rng.integers(0, 29, 70).tolist()
    want = full_forward(model, context, ids)
    cache = model.new_cache(models.pool_for(model, 200))
    models.append(model, context, cache, ids[:60])
    before = state(cache)
    calls = 0

    def stop() -> None:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise InterruptedError

    strange = rng.integers(0, 29, 40).tolist()
    with pytest.raises(InterruptedError):
        models.append(model, context.checked_by(stop), cache, strange)
    assert calls == 2
    assert state(cache) == before
    assert models.append(model, context, cache, ids[60:]).tobytes() == want[60:].tobytes()


def test_a_call_that_was_computed_and_not_committed_leaves_nothing(
    model: LanguageModel, context: NoGrad, rng: np.random.Generator
) -> None:
    ids = rng.integers(0, 29, 12).tolist()
    cache = model.new_cache(models.pool_for(model, 64))
    models.append(model, context, cache, ids[:5])
    before = state(cache)
    with Transaction(cache, 30) as transaction:
        model.forward(context, [text_segment(transaction, np.zeros(30, np.int64))])
    assert state(cache) == before
    got = models.append(model, context, cache, ids[5:])
    assert got.tobytes() == full_forward(model, context, ids)[5:].tobytes()


@pytest.mark.parametrize("name", models.SMALL.parameter_shapes())
def test_a_changed_parameter_is_refused(model: LanguageModel, context: NoGrad, name: str) -> None:
    cache = model.new_cache(models.pool_for(model, 64))
    models.append(model, context, cache, [1, 2, 3])
    open_call = Transaction(cache, 1)
    model.forward(context, [text_segment(open_call, np.array([4]))])
    node = model.parameters[name]
    node.set_value(node.values())  # equal values, another revision
    with pytest.raises(ParametersChanged, match=name) as refused:
        open_call.commit()
    assert refused.value.metadata == {"parameter": name}
    open_call.rollback()
    before = state(cache)
    with pytest.raises(ParametersChanged, match=name):
        Transaction(cache, 1)
    assert state(cache) == before
    assert cache.length == 3
    models.append(model, context, model.new_cache(cache.pool), [1])  # a new cache is bound to what is now


def test_equal_values_in_another_model_are_refused(context: NoGrad) -> None:
    one, two = models.with_gains(models.SMALL, 11), models.with_gains(models.SMALL, 11)
    assert one.parameters.digest() == two.parameters.digest()
    cache, own = one.new_cache(models.pool_for(one, 64, 64)), None
    models.append(one, context, cache, [1, 2, 3])
    own = two.new_cache(cache.pool)
    before = state(cache)
    seen: list[str] = []
    watched = context.observed_by(lambda layer, stage, values: seen.append(stage))
    with Transaction(cache, 1) as transaction, Transaction(own, 1) as fine:
        segments = [text_segment(call, np.array([4])) for call in (fine, transaction)]
        with pytest.raises(ParametersChanged, match="another model"):
            two.forward(watched, segments)
    assert seen == []
    assert state(cache) == before
    assert own.length == 0
