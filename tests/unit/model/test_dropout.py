"""Dropout is a function of its seed, and what a forward dropped can be replayed to the last bit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from unit.model import models
from unit.model.texts import back, configurations, documents, drawn_targets, loss_bits, trained
from zeroulp.model.composition.language_model import LanguageModel
from zeroulp.model.composition.targets import Targets
from zeroulp.model.composition.text_batch import TextBatch
from zeroulp.model.compute_team import ComputeTeam
from zeroulp.model.configuration import Configuration
from zeroulp.model.context import NoGrad
from zeroulp.model.dropout import ReplayedDropout, SeededDropout
from zeroulp.model.errors import NonFinite
from zeroulp.model.recording import Recording
from zeroulp.model.tensors import backward, kept

SHARED = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25)
BATCH = TextBatch.of([[1, 2, 3, 4, 5], [6, 7]])
TARGETS = Targets.next_tokens(BATCH)


@pytest.fixture
def model() -> LanguageModel:
    return models.with_gains(models.SMALL, 6)


@SHARED
@given(c=configurations(), seed=st.integers(0, 2**64 - 1), data=st.data())
def test_seeds_and_replays_give_the_same_bits(
    teams: dict[int, ComputeTeam], c: Configuration, seed: int, data: st.DataObject
) -> None:
    model = models.with_gains(c, 6)
    rows = [data.draw(documents(c, most=3)), data.draw(documents(c, most=2))]
    batch = TextBatch.packed(rows) if data.draw(st.booleans()) else TextBatch.of(rows[0])
    targets = drawn_targets(batch, np.random.default_rng(seed), c.vocabulary_size)
    rate = data.draw(st.floats(0.01, 0.9))
    dropping = Recording.with_dropout(teams[1], SeededDropout(rate, seed))
    want = trained(model, dropping, batch, targets)
    masks = dropping.masks.drawn
    assert len(masks) == 1 + 2 * c.layers
    for recompute in (False, True):
        for source in (SeededDropout(rate, seed), ReplayedDropout(masks)):
            again = Recording.with_dropout(teams[7], source, recompute=recompute)
            with teams[7].awake():
                assert trained(model, again, batch, targets) == want
            assert [mask.tobytes() for mask in again.masks.drawn] == [mask.tobytes() for mask in masks]


def test_a_rate_of_zero_is_none(teams: dict[int, ComputeTeam], model: LanguageModel) -> None:
    want = trained(model, Recording(teams[1]), BATCH, TARGETS)
    for recompute in (False, True):
        nothing = Recording.with_dropout(teams[1], SeededDropout(0.0, 3), recompute=recompute)
        assert trained(model, nothing, BATCH, TARGETS) == want


def test_another_seed_drops_others(teams: dict[int, ComputeTeam], model: LanguageModel) -> None:
    contexts = [Recording.with_dropout(teams[1], SeededDropout(0.5, seed)) for seed in (1, 2)]
    one, two = (loss_bits(model, context, BATCH, TARGETS) for context in contexts)
    assert one != two
    assert one != loss_bits(model, NoGrad(teams[1]), BATCH, TARGETS)
    drawn = {mask.tobytes() for context in contexts for mask in context.masks.drawn if mask.shape[0] == 7}
    assert len(drawn) == 8  # nor do two places of one forward


def test_an_execution_without_a_graph_never_drops(
    teams: dict[int, ComputeTeam], model: LanguageModel
) -> None:
    free, want = NoGrad(teams[1]), loss_bits(model, Recording(teams[1]), BATCH, TARGETS)
    dropping = Recording.with_dropout(teams[1], SeededDropout(0.5, 1))
    assert loss_bits(model, dropping, BATCH, TARGETS) != want
    assert loss_bits(model, free, BATCH, TARGETS) == want


@pytest.mark.parametrize("recompute", [False, True])
def test_a_kept_graph_drops_the_same_each_time(
    teams: dict[int, ComputeTeam], model: LanguageModel, recompute: bool
) -> None:
    dropping = Recording.with_dropout(teams[1], SeededDropout(0.5, 1), recompute=recompute)
    loss = model.loss(dropping, BATCH, TARGETS)
    backward(loss, keep_graph=True)
    once = {name: node.gradient for name, node in model.parameters.items()}
    for node in model.parameters.values():
        node.clear_gradient()
    assert back(model, loss) == {name: found.tobytes() for name, found in once.items() if found is not None}


def test_a_replay_of_another_forward_is_refused(teams: dict[int, ComputeTeam], model: LanguageModel) -> None:
    recorded = Recording.with_dropout(teams[1], SeededDropout(0.5, 1))
    model.loss(recorded, BATCH, TARGETS)
    masks = recorded.masks.drawn
    longer = TextBatch.of([[1, 2, 3]])
    other = Recording.with_dropout(teams[1], ReplayedDropout(masks))
    with pytest.raises(ValueError, match=r"drops an array of shape \[3, 12\] at place 0; the 5 recorded"):
        model.loss(other, longer, Targets.next_tokens(longer))
    short = Recording.with_dropout(teams[1], ReplayedDropout(masks[:4]))
    with pytest.raises(ValueError, match="at place 4; the 4 recorded masks have none"):
        model.loss(short, BATCH, TARGETS)


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.75])
def test_what_is_dropped_and_what_is_kept(rate: float) -> None:
    mask = SeededDropout(rate, 5).mask(3, (200, 100))
    assert set(np.unique(mask)) == {0.0, 1.0 / (1.0 - rate)}
    # 20,000 draws: six deviations of the fraction are 0.022 at the most
    assert abs((mask == 0.0).mean() - rate) < 6.0 * np.sqrt(rate * (1.0 - rate) / mask.size)
    assert not np.signbit(mask).any()


@pytest.mark.parametrize("rate", [-0.1, 1.0, np.nan])
def test_rates_that_are_none(rate: float) -> None:
    with pytest.raises(ValueError, match="it must be at least 0 and below 1"):
        SeededDropout(rate, 1)


@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize("replayed", [False, True])
def test_a_value_that_is_not_finite_is_named_under_dropout(
    teams: dict[int, ComputeTeam], model: LanguageModel, recompute: bool, replayed: bool
) -> None:
    """The block that is run again to name it drops what it dropped before."""
    recorded = Recording.with_dropout(teams[1], SeededDropout(0.5, 1))
    model.loss(recorded, BATCH, TARGETS)
    down = model.parameters["blocks.1.ffn.down.weight"]
    down.set_value(np.full(down.shape, 1e308))
    source = ReplayedDropout(recorded.masks.drawn) if replayed else SeededDropout(0.5, 1)
    context = Recording.with_dropout(teams[1], source, recompute=recompute)
    with pytest.raises(NonFinite, match="layer 1, down"):
        model.loss(context, BATCH, TARGETS)


def test_recomputing_draws_masks_again_instead_of_keeping_them(
    teams: dict[int, ComputeTeam], model: LanguageModel
) -> None:
    plain = Recording(teams[1], recompute=True)
    dropping = Recording.with_dropout(teams[1], SeededDropout(0.5, 1), recompute=True)
    one, two = (model.loss(context, BATCH, TARGETS) for context in (plain, dropping))
    assert kept(two).tensors == kept(one).tensors + 1  # the dropped embedding
