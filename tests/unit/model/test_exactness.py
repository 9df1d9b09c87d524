"""What must not matter does not: one model, one prefix, one set of bits, however they are computed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from naive import model as naive
from unit.kernels.panels import packed_as, representable
from unit.model import models
from unit.model.conftest import THREADS, Cutting
from unit.model.texts import configurations
from zeroulp.model.composition.language_model import LanguageModel
from zeroulp.model.compute_team import ComputeTeam
from zeroulp.model.configuration import Configuration
from zeroulp.model.context import NoGrad
from zeroulp.model.full_forward import full_forward
from zeroulp.model.kernels.arrays import F64
from zeroulp.model.packing import PackedMatrix
from zeroulp.model.parameters import TABLE

# fixtures are not used up: teams and the cut kernels keep nothing between examples
SHARED = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25)


@SHARED
@given(c=configurations(), data=st.data())
def test_every_way_gives_the_naive_bits(
    teams: dict[int, ComputeTeam], cutting: Cutting, c: Configuration, data: st.DataObject
) -> None:
    def draw_ids(most: int) -> list[int]:
        return data.draw(st.lists(st.integers(0, c.vocabulary_size - 1), min_size=1, max_size=most))

    model, ids = models.with_gains(c, data.draw(st.integers(0, 2**64 - 1))), draw_ids(14)
    want = np.array(naive.forward(c, models.weights_of(model), ids)).tobytes()
    alone = NoGrad(teams[1])
    assert full_forward(model, alone, ids).tobytes() == want
    assert models.prefill(model, alone, ids).tobytes() == want
    assert models.by_single_tokens(model, alone, ids).tobytes() == want
    ends = data.draw(st.sets(st.integers(0, len(ids))))
    assert models.by_calls(model, alone, ids, ends).tobytes() == want
    assert models.by_chunks(model, alone, ids, ends).tobytes() == want
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    sequences = [draw_ids(9), ids, draw_ids(5)]
    assert models.mixed(model, alone, sequences, rng)[1].tobytes() == want
    threads, parts = data.draw(st.sampled_from(THREADS)), data.draw(st.integers(1, 64))
    with teams[threads].awake(), cutting.into(parts):
        shared = NoGrad(teams[threads])
        assert full_forward(model, shared, ids).tobytes() == want
        assert models.mixed(model, shared, sequences, rng)[1].tobytes() == want


def test_long_prompts_over_several_blocks(
    teams: dict[int, ComputeTeam], context: NoGrad, rng: np.random.Generator
) -> None:
    for window in (None, 40):
        c = Configuration(37, 24, 6, 2, 19, 1, 128, 10000.0, 1e-6, window)
        model, ids = models.with_gains(c, 5), rng.integers(0, 37, 101).tolist()
        want = full_forward(model, context, ids)
        naively = naive.forward(c, models.weights_of(model), ids)
        assert want.tobytes() == np.array(naively).tobytes()
        assert models.by_single_tokens(model, context, ids).tobytes() == want.tobytes()
        for ends in ([31], [32], [33], [63, 64, 65], [5, 96]):
            assert models.by_calls(model, context, ids, ends).tobytes() == want.tobytes()
        with teams[7].awake():
            assert models.prefill(model, NoGrad(teams[7]), ids).tobytes() == want.tobytes()


def test_a_prefix_does_not_know_what_follows(context: NoGrad, rng: np.random.Generator) -> None:
    model, ids = models.with_gains(models.SMALL, 1), rng.integers(0, 29, 40).tolist()
    whole = full_forward(model, context, ids)
    for length in (1, 7, 8, 9, 32, 33):
        other = [*ids[:length], *rng.integers(0, 29, 3).tolist()]
        assert full_forward(model, context, ids[:length]).tobytes() == whole[:length].tobytes()
        assert full_forward(model, context, other)[:length].tobytes() == whole[:length].tobytes()


def test_a_used_workspace_and_used_blocks_do_not_matter(context: NoGrad, rng: np.random.Generator) -> None:
    model, ids = models.with_gains(models.SMALL, 2), rng.integers(0, 29, 40).tolist()
    want = full_forward(model, context, ids).tobytes()
    pool = models.pool_for(model, 40)
    for length in (33, 1, 40):
        cache = model.new_cache(pool)
        models.append(model, context, cache, rng.integers(0, 29, length).tolist())
        cache.release()
    for array in (part for layer in range(2) for part in pool.layer(layer)):
        assert array.any()
    assert models.append(model, context, model.new_cache(pool), ids).tobytes() == want
    assert full_forward(model, context, ids).tobytes() == want


def as_stored(configuration: Configuration, values: dict[str, F64], storage: str) -> LanguageModel:
    model = models.model_of(configuration, values)
    for name, node in model.parameters.items():
        if isinstance(node.stored, PackedMatrix):
            stands = values[name].T if name == TABLE else values[name]
            node.stored = packed_as(np.ascontiguousarray(stands), storage)
            assert node.stored.storage == storage
    return model


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(c=configurations(), seed=st.integers(0, 2**32))
def test_storage_does_not_matter(teams: dict[int, ComputeTeam], c: Configuration, seed: int) -> None:
    rng, context = np.random.default_rng(seed), NoGrad(teams[1])
    values = {
        name: np.ones(shape) if len(shape) == 1 else representable(rng, shape, "bf16") * 2.0**-4
        for name, shape in c.parameter_shapes().items()
    }
    model = models.model_of(c, values)
    assert {node.matrix.storage for node in model.parameters.values() if len(node.shape) == 2} == {"bf16"}
    ids = rng.integers(0, c.vocabulary_size, 12).tolist()
    want = np.array(naive.forward(c, models.weights_of(model), ids)).tobytes()
    assert full_forward(model, context, ids).tobytes() == want
    for storage in ("f64", "f32", "bf16"):
        stored = as_stored(c, values, storage)
        assert stored.parameters.digest() == model.parameters.digest()
        assert full_forward(stored, context, ids).tobytes() == want
        assert models.by_single_tokens(stored, context, ids).tobytes() == want


@pytest.mark.parametrize("position", [0, 3])
def test_an_early_token_changes_what_sees_it_and_nothing_else(context: NoGrad, position: int) -> None:
    model, ids = models.with_gains(models.SMALL, 3), [1, 2, 3, 4, 5, 6]
    other = [*ids[:position], 9, *ids[position + 1 :]]
    one, two = full_forward(model, context, ids), full_forward(model, context, other)
    for row in range(6):
        assert (one[row].tobytes() == two[row].tobytes()) == (row < position)
