"""The sums behind a draw agree with the naive ones for given unit values."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from naive import sampling as naive
from zeroulp.model.kernels.sampling import draw_ascending, nucleus, tempered

UNITS = st.floats(0.0, 1.0, exclude_max=True)
WEIGHTS = st.lists(st.one_of(st.floats(0.0, 1.0), st.sampled_from([0.0, 1.0, 0.1])), min_size=1, max_size=30)


@pytest.mark.parametrize("temperature", [1e-5, 0.1, 0.7, 1.0, 3.0, 1e300])
def test_tempered(rng: np.random.Generator, temperature: float) -> None:
    z = rng.normal(size=200) * 5
    weights = np.full(200, np.nan)
    tempered(z, temperature, weights)
    assert weights.tobytes() == np.array(naive.weights(z.tolist(), temperature)).tobytes()
    assert weights.max() == 1.0


@given(WEIGHTS, UNITS, st.data())
def test_draw_follows_the_cumulative_rule(weights: list[float], unit: float, data: st.DataObject) -> None:
    kept = sorted(data.draw(st.sets(st.integers(0, len(weights) - 1), min_size=1)))
    got = draw_ascending(np.array(weights), np.array(kept), unit)
    assert got == naive.drawn(weights, kept, unit)


def test_draw_at_the_exact_borders() -> None:
    weights, kept = np.array([1.0, 9.0, 2.0, 0.0, 1.0]), np.array([0, 2, 3, 4])
    # cumulative 1, 3, 3, 4 of 4
    for unit, token in ((0.0, 0), (0.25, 2), (0.75, 4)):
        assert draw_ascending(weights, kept, unit) == token
    for unit, token in ((0.25, 0), (0.75, 2), (1.0, 4)):
        assert draw_ascending(weights, kept, math.nextafter(unit, 0.0)) == token


def test_a_weight_of_zero_is_never_drawn_where_another_is_left() -> None:
    assert draw_ascending(np.array([0.0, 1.0, 0.0]), np.array([0, 1, 2]), 0.0) == 1
    assert draw_ascending(np.array([0.0, 1.0, 0.0]), np.array([0, 1, 2]), 1.0 - 2.0**-53) == 1


@given(WEIGHTS, st.floats(0.0, 1.0, exclude_min=True), st.randoms())
def test_nucleus(weights: list[float], share: float, random) -> None:  # type: ignore[no-untyped-def]
    ranked = list(range(len(weights)))
    random.shuffle(ranked)
    needed = share * naive.ascending_sum([weights[v] for v in ranked])
    want = 1
    while want < len(ranked) and naive.ascending_sum([weights[v] for v in ranked[:want]]) < needed:
        want += 1
    assert nucleus(np.array(weights), np.array(ranked), share) == want


def test_nucleus_at_the_exact_border() -> None:
    weights, ranked = np.array([1.0, 2.0, 1.0]), np.array([1, 0, 2])
    assert nucleus(weights, ranked, 0.5) == 1
    assert nucleus(weights, ranked, math.nextafter(0.5, 1.0)) == 2
    assert nucleus(weights, ranked, 0.75) == 2
    assert nucleus(weights, ranked, 1.0) == 3
