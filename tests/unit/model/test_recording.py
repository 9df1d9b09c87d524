"""What is differentiated is what is served: recorded, recomputed, free and cached passes share all bits."""

from __future__ import annotations

import gc
from types import FunctionType, ModuleType

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from unit.model import models
from unit.model.backward_by_hand import ByHand
from unit.model.conftest import THREADS, Cutting
from unit.model.texts import Documents, configurations, documents, drawn_targets, loss_bits, trained
from zeroulp.model.composition.language_model import LanguageModel
from zeroulp.model.composition.targets import Targets
from zeroulp.model.composition.text_batch import TextBatch
from zeroulp.model.compute_team import ComputeTeam
from zeroulp.model.configuration import Configuration
from zeroulp.model.context import NoGrad
from zeroulp.model.recording import Recording
from zeroulp.model.tensors import Kept, Node, Tensor, kept

# fixtures are not used up: teams and the cut kernels keep nothing between examples
SHARED = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)


@SHARED
@given(c=configurations(), data=st.data())
def test_every_way_gives_the_same_bits(
    teams: dict[int, ComputeTeam], c: Configuration, data: st.DataObject
) -> None:
    model = models.with_gains(c, data.draw(st.integers(0, 2**32)))
    texts: Documents = data.draw(documents(c, most=3))
    batch, free = TextBatch.of(texts), NoGrad(teams[1])
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    targets = drawn_targets(batch, rng, c.vocabulary_size)
    recording, recomputing = Recording(teams[1]), Recording(teams[1], recompute=True)

    z = model.batch_logits(free, batch).values
    for context in (recording, recomputing):
        assert model.batch_logits(context, batch).values.tobytes() == z.tobytes()
    loss, gradients = trained(model, recording, batch, targets)
    assert loss == loss_bits(model, free, batch, targets)
    assert trained(model, recomputing, batch, targets) == (loss, gradients)
    for row, ids in zip(z, texts, strict=True):
        want = row[: len(ids)].tobytes()
        assert models.by_single_tokens(model, free, ids).tobytes() == want
        ends = data.draw(st.sets(st.integers(0, len(ids))))
        assert models.by_chunks(model, free, ids, ends).tobytes() == want
        prompt = data.draw(st.integers(1, len(ids)))
        assert models.by_calls(model, free, ids, range(prompt, len(ids))).tobytes() == want


@SHARED
@given(c=configurations(), data=st.data())
def test_gradients_are_those_of_the_operations_put_together_by_hand(
    teams: dict[int, ComputeTeam], c: Configuration, data: st.DataObject
) -> None:
    model = models.with_gains(c, data.draw(st.integers(0, 2**32)))
    ((ids),) = data.draw(documents(c, most=1, longest=14))
    targets = data.draw(st.lists(st.integers(0, c.vocabulary_size - 1), min_size=len(ids), max_size=len(ids)))
    value, found = ByHand(model, teams[1].control, ids, targets).run()
    loss, gradients = trained(
        model,
        Recording(teams[1]),
        TextBatch.of([ids]),
        Targets(np.array([targets]), np.ones((1, len(ids)), bool)),
    )
    assert loss == np.float64(value).tobytes()
    assert gradients == {name: found[name].tobytes() for name in model.parameters}


@SHARED
@given(c=configurations(), data=st.data())
def test_threads_and_parts_change_no_gradient(
    teams: dict[int, ComputeTeam], cutting: Cutting, c: Configuration, data: st.DataObject
) -> None:
    model = models.with_gains(c, data.draw(st.integers(0, 2**32)))
    batch = TextBatch.packed([data.draw(documents(c, most=3)), data.draw(documents(c, most=2))])
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    targets = drawn_targets(batch, rng, c.vocabulary_size)
    want = trained(model, Recording(teams[1]), batch, targets)
    for threads in THREADS:
        parts = data.draw(st.integers(1, 64))
        for recompute in (False, True):
            with teams[threads].awake(), cutting.into(parts):
                got = trained(model, Recording(teams[threads], recompute=recompute), batch, targets)
            assert got == want, (threads, parts, recompute)


@pytest.fixture
def model() -> LanguageModel:
    return models.with_gains(Configuration(61, 16, 4, 2, 23, 3, 128, 1e4, 1e-6), 4)


def forward(model: LanguageModel, context: Recording, rows: int) -> Tensor:
    batch = TextBatch.of([[token % 61 for token in range(rows)]] * 2)
    return model.loss(context, batch, Targets.next_tokens(batch))


def held_by(result: Tensor) -> int:
    """Return the bytes of all arrays that a result keeps alive, parameters and their like apart."""
    seen: dict[int, object] = {}
    arrays: dict[int, int] = {}
    stack: list[object] = [result]
    while stack:
        held = stack.pop()
        if id(held) in seen or isinstance(held, type | FunctionType | ModuleType | ComputeTeam):
            continue
        seen[id(held)] = held
        if isinstance(held, np.ndarray):
            while isinstance(held.base, np.ndarray):
                held = held.base
            arrays[id(held)] = held.nbytes
        elif not isinstance(held, Node) or isinstance(held, Tensor):
            stack.extend(gc.get_referents(held))
    return sum(arrays.values())


def test_recomputing_keeps_the_boundaries_of_blocks_only(
    teams: dict[int, ComputeTeam], model: LanguageModel
) -> None:
    rows, D, V, layers = 2 * 40, 16, 61, 3
    whole = kept(forward(model, Recording(teams[1]), 40))
    fewer = kept(forward(model, Recording(teams[1], recompute=True), 40))
    # embedding as rows, as [B, T, D], as rows again, and after each block; final norm twice and H as rows
    boundaries = Kept(3 + layers + 3 + 2, (3 + layers + 3) * rows * D + rows * V + 1)
    assert fewer == boundaries
    # two norms, q, k, v, both turned, mixed, output; gate, up, SwiGLU; down; two residuals
    block = 2 * D + (D + 8 + 8) + (D + 8) + D + D + 3 * 23 + D + 2 * D
    assert whole == Kept(8 + 15 * layers, boundaries.values + layers * rows * (block - D))


def test_a_graph_keeps_nothing_else_alive(teams: dict[int, ComputeTeam], model: LanguageModel) -> None:
    """No cache, no pool and no workspace hide behind a result."""
    rows, D = 2 * 80, 16
    for recompute in (False, True):
        result = forward(model, Recording(teams[1], recompute=recompute), 80)
        # X and H are each kept in three shapes of the same memory
        values = kept(result).values - 4 * rows * D
        # beside them ids, cells, targets, angles, and each layer's bounds of what is seen
        assert 8 * values < held_by(result) < 8 * (values + 16 * rows)
