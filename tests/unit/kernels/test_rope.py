"""RoPE agrees with the naive one in every bit, and no zero leaves it negative."""

from __future__ import annotations

import numpy as np
import pytest

from naive import elementary
from naive import model as naive
from zeroulp.model.kernels import shared
from zeroulp.model.kernels.arrays import F64, I64
from zeroulp.model.kernels.rope import rope_frequencies, rope_part, rope_turns


def turns(positions: I64, base: float, width: int) -> tuple[F64, F64]:
    frequencies = np.full(width // 2, np.nan)
    rope_frequencies(base, width, frequencies)
    cosines = np.full((positions.size, width // 2), np.nan)
    sines = np.full_like(cosines, np.nan)
    rope_turns(positions, frequencies, cosines, sines)
    return cosines, sines


@pytest.mark.parametrize("width", [2, 4, 6, 10, 64])
@pytest.mark.parametrize("base", [10000.0, 100000.0, 1.5, 0.25])
def test_angles(width: int, base: float) -> None:
    positions = np.array([0, 1, 2, 7, 511, 2047, 131071], np.int64)
    cosines, sines = turns(positions, base, width)
    angles = [
        [t * elementary.power(base, -2 * p / width) for p in range(width // 2)] for t in positions.tolist()
    ]
    assert cosines.tobytes() == np.array([[elementary.cos(a) for a in row] for row in angles]).tobytes()
    assert sines.tobytes() == np.array([[elementary.sin(a) for a in row] for row in angles]).tobytes()


@pytest.mark.parametrize("heads", [1, 3])
@pytest.mark.parametrize("width", [2, 4, 6, 8, 10, 64])
def test_turned_rows(alone: I64, rng: np.random.Generator, heads: int, width: int) -> None:
    positions = np.array([0, 5, 6, 1000, 3], np.int64)
    x = rng.normal(size=(5, heads * width))
    y = np.full_like(x, np.nan)
    shared.rotate(alone, x, *turns(positions, 10000.0, width), y)
    want = [naive.rope(row, t, 10000.0, width) for row, t in zip(x.tolist(), positions.tolist(), strict=True)]
    assert y.tobytes() == np.array(want).tobytes()


@pytest.mark.parametrize("parts", [1, 2, 3, 7, 64])
def test_each_part_alone(rng: np.random.Generator, parts: int) -> None:
    positions = np.arange(7, dtype=np.int64)
    x, (cosines, sines) = rng.normal(size=(7, 12)), turns(positions, 10000.0, 6)
    want = np.array([naive.rope(row, t, 10000.0, 6) for t, row in enumerate(x.tolist())])
    written = np.zeros(7, np.int64)
    for part in range(parts):
        y = np.full_like(x, np.nan)
        rope_part(x.ravel(), 7, 12, cosines.ravel(), sines.ravel(), 3, y.ravel(), part, parts)
        here = ~np.isnan(y[:, 0])
        assert y[here].tobytes() == want[here].tobytes()
        written += here
    assert (written == 1).all()


def test_zeros_leave_positive(alone: I64) -> None:
    x = np.array([[-0.0, -0.0, 0.0, -0.0], [-0.0, 0.0, -0.0, -0.0]] * 3)
    y = np.full_like(x, np.nan)
    shared.rotate(alone, x, *turns(np.array([0, 1, 2, 3, 4, 5]), 10000.0, 4), y)
    assert y.tobytes() == np.zeros_like(x).tobytes()


def test_zeros_by_cancellation_leave_positive(alone: I64) -> None:
    cosines, sines = np.array([[1.0]]), np.array([[1.0]])
    y = np.full((1, 2), np.nan)
    shared.rotate(alone, np.array([[-3.0, -3.0]]), cosines, sines, y)
    assert y.tobytes() == np.array([[0.0, -6.0]]).tobytes()


def test_position_zero_turns_nothing(alone: I64, rng: np.random.Generator) -> None:
    x = rng.normal(size=(1, 8))
    y = np.full_like(x, np.nan)
    shared.rotate(alone, x, *turns(np.zeros(1, np.int64), 10000.0, 8), y)
    assert y.tobytes() == x.tobytes()
