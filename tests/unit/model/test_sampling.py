"""A drawn token is a function of logits, parameters, seed, position and the tokens before."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from naive import sampling as naive
from naive import splitmix
from zeroulp.model.errors import InvalidArgument, NonFinite
from zeroulp.model.initialisation import keyed_unit
from zeroulp.model.kernels.arrays import F64
from zeroulp.model.sampling import GREEDY_BELOW, SamplingParameters, best_entries, draw, penalised

# few different values, so that equals and borders happen, and near enough that no token takes all
LOGITS = st.lists(
    st.one_of(st.floats(-1, 1), st.sampled_from([0.0, -0.0, 1.0, 2.5, -3.0])), min_size=1, max_size=24
)
PARAMETERS = st.builds(
    SamplingParameters,
    temperature=st.sampled_from([0.0, 9e-6, 1e-5, 0.3, 1.0, 2.0]),
    top_k=st.integers(0, 26),
    top_p=st.one_of(st.just(1.0), st.floats(0.0, 1.0, exclude_min=True)),
    min_p=st.one_of(st.just(0.0), st.sampled_from([0.05, 1.0]), st.floats(0.0, 1.0)),
    repetition_penalty=st.sampled_from([1.0, 1.3, 0.5, 10.0]),
    presence_penalty=st.sampled_from([0.0, 0.7, -1.0]),
    frequency_penalty=st.sampled_from([0.0, 0.4, -0.2]),
)


@settings(max_examples=400)
@given(z=LOGITS, p=PARAMETERS, seed=st.integers(0, 2**64 - 1), data=st.data())
def test_draw_is_the_naive_one(z: list[float], p: SamplingParameters, seed: int, data: st.DataObject) -> None:
    tokens = data.draw(st.lists(st.integers(0, len(z) - 1), max_size=8))
    start = data.draw(st.integers(0, len(tokens)))
    logits = np.array(z)
    assert draw(logits, p, seed, tokens, start) == naive.draw(z, p, seed, tokens, start)
    assert logits.tobytes() == np.array(z).tobytes()  # drawing changes no logits


@given(z=LOGITS, p=PARAMETERS, data=st.data())
def test_penalties_are_the_naive_ones(z: list[float], p: SamplingParameters, data: st.DataObject) -> None:
    tokens = data.draw(st.lists(st.integers(0, len(z) - 1), max_size=12))
    start = data.draw(st.integers(0, len(tokens)))
    want = naive.penalised(z, p, tokens, start)
    assert penalised(np.array(z), p, tokens, start).tobytes() == np.array(want).tobytes()


@pytest.mark.parametrize("temperature", [0.0, 1e-6, math.nextafter(GREEDY_BELOW, 0.0)])
def test_greedy_takes_the_lowest_id_of_equal_maxima(temperature: float) -> None:
    p = SamplingParameters(temperature=temperature)
    assert p.greedy
    for seed in range(20):
        assert draw(np.array([0.0, 3.0, -1.0, 3.0, 3.0]), p, seed, [1], 0) == 1
        assert draw(np.array([-0.0, 0.0]), p, seed, [], 0) == 0


def test_from_the_border_on_it_is_a_draw() -> None:
    p = SamplingParameters(temperature=GREEDY_BELOW)
    assert not p.greedy
    assert {draw(np.array([3.0, 3.0]), p, seed, [], 0) for seed in range(30)} == {0, 1}


def test_greedy_with_next_to_no_temperature_agrees_with_greedy() -> None:
    z = np.random.default_rng(1).normal(size=50)
    for seed in range(20):
        assert draw(z, SamplingParameters(temperature=1e-4), seed, [], 0) == int(z.argmax())


def test_a_draw_depends_on_seed_and_position_and_not_on_other_tokens() -> None:
    rng, p = np.random.default_rng(2), SamplingParameters()
    z = rng.normal(size=1000)
    drawn: dict[tuple[int, int], set[int]] = {}
    for seed in range(20):
        for position in (0, 1, 2, 50):
            for _ in range(3):
                tokens = rng.integers(0, 1000, position).tolist()
                start = int(rng.integers(0, position + 1))
                drawn.setdefault((seed, position), set()).add(draw(z, p, seed, tokens, start))
    assert all(len(tokens) == 1 for tokens in drawn.values())
    assert len({min(tokens) for tokens in drawn.values()}) > 60


def test_a_draw_is_where_the_unit_value_falls() -> None:
    # equal weights: the n-th of 8 ids for a unit value of n/8 up to (n+1)/8
    z, p = np.zeros(8), SamplingParameters()
    for seed in range(40):
        for position in range(5):
            assert draw(z, p, seed, [0] * position, 0) == int(keyed_unit(seed, position) * 8)


def test_a_wrapped_seed() -> None:
    assert keyed_unit(2**64 - 1, 3) == splitmix.keyed_unit(2**64 - 1, 3)


@pytest.mark.parametrize("top_k", [1, 2, 3, 5, 6, 7, 100])
def test_top_k_keeps_the_lower_ids_of_equals(top_k: int) -> None:
    z = np.array([1.0, 2.0, 1.0, 2.0, 1.0, 0.0])
    drawn = {draw(z, SamplingParameters(top_k=top_k), seed, [], 0) for seed in range(300)}
    assert drawn == set([1, 3, 0, 2, 4, 5][:top_k])


@pytest.mark.parametrize("filters", [{"top_k": 3}, {"top_p": 0.8}, {"top_k": 3, "min_p": 0.01}])
def test_what_is_kept_is_drawn_from_in_the_order_of_the_ids(filters: dict[str, Any]) -> None:
    # weights 1, 4, 2, 3 of which the largest three are kept: borders at 4/9 and 6/9, ids ascending
    z = np.log(np.array([1.0, 4.0, 2.0, 3.0]))
    for seed in range(200):
        unit = keyed_unit(seed, 0)
        want = 1 if unit < 4 / 9 else 2 if unit < 6 / 9 else 3
        assert draw(z, SamplingParameters(**filters), seed, [], 0) == want


def test_top_p_keeps_the_lower_ids_of_equals_and_the_one_that_reaches_it() -> None:
    z = np.zeros(4)
    for top_p, kept in ((0.2, {0}), (0.25, {0}), (0.26, {0, 1}), (0.75, {0, 1, 2}), (0.76, {0, 1, 2, 3})):
        assert {draw(z, SamplingParameters(top_p=top_p), seed, [], 0) for seed in range(200)} == kept


def test_min_p_is_a_share_of_the_largest() -> None:
    z = np.log(np.array([1.0, 0.5, 0.1, 0.01]))
    for min_p, kept in ((1.0, {0}), (0.6, {0}), (0.4, {0, 1}), (0.09, {0, 1, 2}), (0.0, {0, 1, 2, 3})):
        assert {draw(z, SamplingParameters(min_p=min_p), seed, [], 0) for seed in range(800)} == kept


def test_the_filters_work_in_the_documented_order() -> None:
    # min-p before top-p: half of what top-k and min-p left, not half of all
    z = np.log(np.array([0.4, 0.3, 0.2, 0.1]))
    p = SamplingParameters(top_k=3, min_p=0.7, top_p=0.58)
    assert {draw(z, p, seed, [], 0) for seed in range(300)} == {0, 1}
    assert {draw(z, SamplingParameters(top_p=0.39), seed, [], 0) for seed in range(300)} == {0}


def test_penalties_count_once_per_id() -> None:
    z = np.array([2.0, -2.0, 2.0, 0.0])
    assert penalised(z, SamplingParameters(repetition_penalty=2.0), [0, 0, 1, 1, 3], 5).tolist() == [
        1.0,
        -4.0,
        2.0,
        0.0,
    ]
    generated = SamplingParameters(presence_penalty=0.5)
    assert penalised(z, generated, [2, 0, 0, 1], 1).tolist() == [1.5, -2.5, 2.0, 0.0]
    counted = SamplingParameters(frequency_penalty=0.5)
    assert penalised(z, counted, [2, 0, 0, 1], 1).tolist() == [1.0, -2.5, 2.0, 0.0]
    both = SamplingParameters(presence_penalty=0.25, frequency_penalty=0.5, repetition_penalty=2.0)
    assert penalised(z, both, [2, 0, 0, 1], 1).tolist() == [-0.25, -4.75, 1.0, 0.0]


def test_without_penalties_the_logits_are_taken_as_they_are() -> None:
    z = np.array([1.0, 2.0])
    assert penalised(z, SamplingParameters(), [0, 1], 0) is z


OVERFLOWING: list[dict[str, Any]] = [
    {"presence_penalty": -1.7e308, "frequency_penalty": -1.7e308},
    {"presence_penalty": 1.7e308, "frequency_penalty": 1.7e308},
    {"repetition_penalty": 5e-324},
    {"repetition_penalty": 5e-324, "presence_penalty": 1.7e308, "frequency_penalty": 1.7e308},
]


@pytest.mark.parametrize("penalties", OVERFLOWING)
@pytest.mark.parametrize("others", [{}, {"min_p": 0.5}, {"top_k": 1}, {"top_p": 0.5}, {"temperature": 0.0}])
def test_penalties_that_overflow_are_an_error(penalties: dict[str, Any], others: dict[str, Any]) -> None:
    # a token drawn from NaN would be any number at all, out of the vocabulary too
    with pytest.raises(NonFinite, match="penalties"):
        draw(np.array([1.0, 2.0, 3.0]), SamplingParameters(**penalties, **others), 1, [1, 1], 0)


@given(LOGITS, st.integers(1, 30))
def test_best_entries(z: list[float], count: int) -> None:
    assert best_entries(np.array(z), count).tolist() == naive.best_entries(z, count)


def test_best_entries_of_ties() -> None:
    z: F64 = np.array([1.0, 5.0, 1.0, 5.0, 1.0, -0.0, 0.0])
    for count, want in ((1, [1]), (2, [1, 3]), (3, [1, 3, 0]), (4, [1, 3, 0, 2]), (6, [1, 3, 0, 2, 4, 5])):
        assert best_entries(z, count).tolist() == want


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperature", -0.1),
        ("temperature", math.inf),
        ("temperature", math.nan),
        ("top_k", -1),
        ("top_p", 0.0),
        ("top_p", 1.1),
        ("top_p", math.nan),
        ("min_p", -0.1),
        ("min_p", 1.1),
        ("min_p", math.nan),
        ("repetition_penalty", 0.0),
        ("repetition_penalty", math.inf),
        ("repetition_penalty", math.nan),
        ("presence_penalty", math.inf),
        ("presence_penalty", math.nan),
        ("frequency_penalty", -math.inf),
        ("frequency_penalty", math.nan),
    ],
)
def test_parameters_that_are_not_allowed(name: str, value: Any) -> None:
    with pytest.raises(InvalidArgument, match=f"{name} is {value}; it must be") as refused:
        SamplingParameters(**{name: value})
    assert [violation.field for violation in refused.value.violations] == [f"sampling.{name}"]
