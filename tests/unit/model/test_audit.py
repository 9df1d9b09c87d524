"""The first bit that differs is named, and how far apart its two values are."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zeroulp.model.audit import Difference, first_difference


def difference(cached: float, recomputed: float) -> Difference:
    return Difference(0, "key", 0, 0, cached, recomputed)


@given(
    st.lists(st.floats(-1e300, 1e300), min_size=6, max_size=6),
    st.integers(0, 5),
    st.integers(1, 7),
)
def test_one_altered_value_is_named(values: list[float], at: int, steps: int) -> None:
    rows = np.array(values).reshape(2, 3)
    altered = rows.copy()
    for _ in range(steps):
        altered.flat[at] = np.nextafter(altered.flat[at], math.inf)
    assert first_difference(1, "value", 10, rows, rows.copy()) is None
    found = first_difference(1, "value", 10, rows, altered)
    assert found is not None
    assert (found.layer, found.stage, found.position, found.feature) == (1, "value", 10 + at // 3, at % 3)
    assert found.ulps == steps


def test_zeros_of_two_signs_differ_in_bits_and_are_no_ulp_apart() -> None:
    found = first_difference(None, "logits", 0, np.zeros((1, 1)), -np.zeros((1, 1)))
    assert found is not None
    assert found.ulps == 0


@pytest.mark.parametrize(
    ("cached", "recomputed", "ulps"), [(-5e-324, 5e-324, 2), (1.0, 1.0 - 2**-53, 1), (math.inf, 1.7e308, 0)]
)
def test_distances_cross_zero_and_binades(cached: float, recomputed: float, ulps: int) -> None:
    found = difference(cached, recomputed)
    assert found.ulps == difference(recomputed, cached).ulps
    assert found.ulps == ulps or not ulps
