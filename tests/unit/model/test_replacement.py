"""All parameters move to other values, or none does; nodes keep their identity."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from unit.model import models
from zeroulp.model.composition.language_model import LanguageModel
from zeroulp.model.context import NoGrad
from zeroulp.model.errors import ParametersChanged, UnsupportedModel
from zeroulp.model.full_forward import full_forward
from zeroulp.model.parameters import TABLE, ParameterInventory
from zeroulp.model.quantised import pack_blocks
from zeroulp.model.replacement import Replacement

SHAPES = models.SMALL.parameter_shapes()
IDS = [1, 2, 28, 0, 5]


@pytest.fixture
def served() -> LanguageModel:
    return models.with_gains(models.SMALL, 3)


@pytest.fixture
def new() -> LanguageModel:
    return models.with_gains(models.SMALL, 4)


def test_the_model_is_the_new_one_in_every_bit(
    served: LanguageModel, new: LanguageModel, context: NoGrad
) -> None:
    nodes, before = list(served.parameters.values()), served.parameters.revisions()
    Replacement(served, new).publish()
    assert list(served.parameters.values()) == nodes
    assert [(node, revision - 1) for node, revision in served.parameters.revisions()] == list(before)
    assert served.parameters.digest() == new.parameters.digest()
    assert full_forward(served, context, IDS).tobytes() == full_forward(new, context, IDS).tobytes()
    assert served.table is served.head.table is served.parameters[TABLE]


def test_making_it_moves_nothing(served: LanguageModel, new: LanguageModel) -> None:
    before = served.parameters.digest(), served.parameters.revisions()
    Replacement(served, new)
    assert (served.parameters.digest(), served.parameters.revisions()) == before


def test_later_changes_of_the_new_model_are_its_own(served: LanguageModel, new: LanguageModel) -> None:
    replacement, digest = Replacement(served, new), new.parameters.digest()
    for name, shape in SHAPES.items():
        new.parameters[name].set_value(np.full(shape, 7.0))
    replacement.publish()
    assert served.parameters.digest() == digest


def test_caches_from_before_are_stale(served: LanguageModel, new: LanguageModel, context: NoGrad) -> None:
    cache = served.new_cache(models.pool_for(served, 8))
    models.append(served, context, cache, IDS)
    state = models.state(cache)
    Replacement(served, new).publish()
    with pytest.raises(ParametersChanged):
        models.append(served, context, cache, [3])
    assert models.state(cache) == state


OTHER: dict[str, Any] = {
    "vocabulary_size": 30,
    "model_width": 16,
    "kv_heads": 2,
    "heads": 1,
    "feed_forward_width": 8,
    "layers": 3,
    "max_positions": 129,
    "rope_base": np.nextafter(10000.0, 1e9).item(),
    "rms_epsilon": 1e-5,
    "context_window": 4,
}


def test_every_field_of_the_configuration_is_varied() -> None:
    assert OTHER.keys() == models.SMALL.__dataclass_fields__.keys()


@pytest.mark.parametrize(("name", "value"), OTHER.items())
def test_another_configuration_is_refused_with_both_values(
    served: LanguageModel, name: str, value: object
) -> None:
    other = models.seeded(replace(models.SMALL, **{name: value}), 1)  # type: ignore[arg-type]
    before = served.parameters.digest(), served.parameters.revisions()
    told = f"{name} is {value!r}, and {getattr(models.SMALL, name)!r} is served"
    with pytest.raises(UnsupportedModel, match=told):
        Replacement(served, other)
    assert (served.parameters.digest(), served.parameters.revisions()) == before


def test_every_differing_field_is_named(served: LanguageModel) -> None:
    other = models.seeded(replace(models.SMALL, layers=1, max_positions=5), 1)
    with pytest.raises(UnsupportedModel, match=r"layers is 1, .*; max_positions is 5, and 128 is served"):
        Replacement(served, other)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("name", SHAPES)
def test_one_value_that_is_not_finite_moves_nothing(
    served: LanguageModel, new: LanguageModel, name: str, value: float
) -> None:
    values = new.parameters[name].values()
    values.reshape(-1)[-1] = value
    new.parameters[name].set_value(values)
    before = served.parameters.digest(), served.parameters.revisions()
    with pytest.raises(UnsupportedModel, match=f"parameter {name} holds a value that is not finite"):
        Replacement(served, new)
    assert (served.parameters.digest(), served.parameters.revisions()) == before


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("columns", [1, 8, 13, 3000])
def test_finiteness_is_found_in_every_storage_and_place(
    dtype: type[np.floating[Any]], columns: int, rng: np.random.Generator
) -> None:
    configuration = replace(models.SMALL, vocabulary_size=columns)
    values = dict(models.seeded(configuration, 1).parameters)
    table = values[TABLE].values().astype(dtype)
    for row in {0, columns // 2, columns - 1}:
        spoilt = table.copy()
        spoilt[row, int(rng.integers(12))] = -np.inf
        values[TABLE].set_value(spoilt)
        assert not values[TABLE].is_finite()
    values[TABLE].set_value(np.full((columns, 12), 0.5))  # bfloat16
    assert values[TABLE].is_finite()
    values[TABLE].set_value(np.full((columns, 12), np.inf))
    assert not values[TABLE].is_finite()


def test_a_scale_of_quantised_blocks_may_not_be_finite() -> None:
    blocks = np.zeros((9, 34), np.uint8)
    assert pack_blocks("Q8_0", blocks, 32).is_finite()
    blocks[8, :3] = 0x00, 0x7C, 0x01  # the float16 infinity, and a number that it scales
    assert not pack_blocks("Q8_0", blocks, 32).is_finite()


def test_the_inventorys_revision_grows_with_each_value(served: LanguageModel, new: LanguageModel) -> None:
    nodes: ParameterInventory = served.parameters
    assert nodes.revision == 0
    nodes[TABLE].set_value(nodes[TABLE].values())
    assert nodes.revision == 1
    Replacement(served, new).publish()
    assert nodes.revision == 1 + len(nodes)
