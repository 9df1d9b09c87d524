"""The pieces of softmax and loss: first maximum, sums in order, vector passes."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from naive import elementary
from zeroulp.model.kernels import shared
from zeroulp.model.kernels.arrays import F64, I64
from zeroulp.model.kernels.jit import kernel
from zeroulp.model.kernels.lanes import scale_and_maximum
from zeroulp.model.kernels.softmax import (
    ascending_sum,
    exponentials_below,
    first_maximum,
    log_normaliser_part,
)
from zeroulp.model.kernels.vectors import LANES


@kernel
def scaled(s: F64, first: int, groups: int, scale: float) -> float:
    return scale_and_maximum(s, first, groups, scale)  # type: ignore[no-any-return]


def naive_tail(line: list[float], best: int) -> float:
    tail = 0.0
    for j, value in enumerate(line):
        if j != best:
            tail = tail + elementary.exp(value - line[best])
    return tail


def float_bits(value: float) -> bytes:
    return np.float64(value).tobytes()


def test_first_maximum_is_the_first_of_equals() -> None:
    s = np.array([9.0, 1.0, 3.0, 3.0, -1.0, 3.0, 9.0])
    assert first_maximum(s, 0, 7) == 0
    assert first_maximum(s, 1, 6) == 2
    assert first_maximum(s, 3, 6) == 3
    assert first_maximum(s, 4, 5) == 4
    assert first_maximum(np.array([-0.0, 0.0]), 0, 2) == 0
    assert first_maximum(np.array([0.0, -0.0]), 0, 2) == 0


@pytest.mark.parametrize("size", [1, 2, 7, 8, 63, 64, 65, 130])
def test_exponentials_below(rng: np.random.Generator, size: int) -> None:
    s = np.round(rng.normal(size=size + 5) * 3, 1)  # rounded: equals happen
    s[0] = s[-1] = 1e9  # not in the range
    first, last = 2, size + 2
    e = np.full_like(s, np.nan)
    line = s[first:last].tolist()
    total = exponentials_below(s, first, last, max(line), e)
    assert e[first:last].tobytes() == np.array([elementary.exp(v - max(line)) for v in line]).tobytes()
    assert np.isnan(e[:first]).all()
    assert np.isnan(e[last:]).all()
    assert float_bits(total) == float_bits(1.0 + naive_tail(line, line.index(max(line))))


def test_equal_maxima_are_all_but_one_in_the_tail() -> None:
    s = np.array([-0.0, 0.0, -0.0, 0.0])
    assert exponentials_below(s, 0, 4, 0.0, s) == 4.0
    assert s.tobytes() == np.ones(4).tobytes()


def test_where_the_first_maximum_stands_decides_the_order() -> None:
    # a term is left out where it stands, so the sum before it is not disturbed
    s = np.array([-36.0, 0.0, -0.5, 0.0, -36.5, -37.0])
    tail = naive_tail(s.tolist(), 1)
    assert float_bits(exponentials_below(s, 0, 6, 0.0, np.empty(6))) == float_bits(1.0 + tail)


@pytest.mark.parametrize("width", [1, 2, 63, 64, 65, 258, 1000])
def test_log_normalisers(alone: I64, rng: np.random.Generator, width: int) -> None:
    z = np.round(rng.normal(size=(5, width)) * 4, 1)
    z[1] = 2.5  # all equal
    z[2, -1] = 800.0  # all others vanish
    best, log_tail = np.empty(5, np.int64), np.empty(5)
    shared.log_normalisers(alone, z, best, log_tail)
    for row, line in enumerate(z.tolist()):
        assert best[row] == line.index(max(line))
        assert float_bits(log_tail[row]) == float_bits(
            elementary.log1p(naive_tail(line, line.index(max(line))))
        )


@pytest.mark.parametrize("parts", [1, 2, 3, 5, 64])
def test_log_normalisers_part_by_part(rng: np.random.Generator, parts: int) -> None:
    z, written = rng.normal(size=(5, 70)), np.zeros(5, np.int64)
    want = [elementary.log1p(naive_tail(line, line.index(max(line)))) for line in z.tolist()]
    for part in range(parts):
        best, log_tail = np.full(5, -1), np.full(5, np.nan)
        log_normaliser_part(z.ravel(), 5, 70, best, log_tail, part, parts)
        here = best >= 0
        assert (best[here] == z.argmax(axis=1)[here]).all()
        assert log_tail[here].tobytes() == np.array(want)[here].tobytes()
        written += here
    assert (written == 1).all()


def test_ascending_sum(rng: np.random.Generator) -> None:
    for size in (0, 1, 7, 8, 100, 1000):
        values = rng.normal(size=size) * 2.0 ** rng.integers(-40, 40, size)
        total = 0.0
        for value in values.tolist():
            total = total + value
        assert float_bits(ascending_sum(values)) == float_bits(total)
    assert float_bits(ascending_sum(np.array([-0.0]))) == float_bits(0.0)
    # pairwise, or with several accumulators, this is 2.0 or 1.0
    assert ascending_sum(np.array([1.0, 1e100, 1.0, -1e100] * 4)) == 0.0


@given(
    st.lists(st.floats(-1e100, 1e100), min_size=LANES, max_size=5 * LANES),
    st.floats(-4.0, 4.0),
    st.integers(0, 3),
)
def test_scale_and_maximum(values: list[float], scale: float, first: int) -> None:
    groups = (len(values) - first) // LANES
    if not groups:
        return
    s = np.array(values)
    last = first + groups * LANES
    want = [v * scale if first <= j < last else v for j, v in enumerate(values)]
    largest = scaled(s, first, groups, scale)
    assert s.tobytes() == np.array(want).tobytes()
    assert largest == max(want[first:last])


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 1e308, -1e308])
@pytest.mark.parametrize("place", range(3 * LANES))
def test_scale_and_maximum_tells_what_is_not_finite(bad: float, place: int) -> None:
    s = np.linspace(-1, 1, 3 * LANES)
    assert scaled(s.copy(), 0, 3, 10.0) == s[-1] * 10.0
    s[place] = bad  # 1e308 * 10 overflows
    assert math.isnan(scaled(s.copy(), 0, 3, 10.0))
