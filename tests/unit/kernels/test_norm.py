"""RMSNorm agrees with the naive one in every bit."""

from __future__ import annotations

import numpy as np
import pytest

from naive import model as naive
from zeroulp.model.kernels import shared
from zeroulp.model.kernels.arrays import F64, I64
from zeroulp.model.kernels.norm import rms_norm_part


def naively(x: F64, gain: F64, epsilon: float) -> F64:
    return np.array([naive.rms_norm(row, gain.tolist(), epsilon) for row in x.tolist()])


@pytest.mark.parametrize("rows", [1, 2, 3, 4, 5, 8, 11, 40])
@pytest.mark.parametrize("width", [1, 2, 7, 8, 65, 341])
def test_any_shape(alone: I64, rng: np.random.Generator, rows: int, width: int) -> None:
    x = rng.uniform(-1, 1, (rows, width)) * 2.0 ** rng.integers(-20, 20, (rows, width))
    gain, epsilon = rng.uniform(-2, 2, width), 10.0 ** -rng.integers(4, 9)
    y = np.full_like(x, np.nan)
    shared.rms_norm(alone, x, gain, epsilon, y)
    assert y.tobytes() == naively(x, gain, epsilon).tobytes()


@pytest.mark.parametrize("parts", [1, 2, 3, 5, 13, 64])
def test_each_part_alone(rng: np.random.Generator, parts: int) -> None:
    x, gain = rng.normal(size=(13, 9)), rng.normal(size=9)
    want, written = naively(x, gain, 1e-6), np.zeros(13, np.int64)
    for part in range(parts):
        y = np.full_like(x, np.nan)
        rms_norm_part(x.ravel(), 13, 9, gain, 1e-6, y.ravel(), part, parts)
        here = ~np.isnan(y[:, 0])
        assert y[here].tobytes() == want[here].tobytes()
        written += here
    assert (written == 1).all()


def test_zeros_and_the_least_numbers(alone: I64) -> None:
    x = np.array([[0.0, -0.0, 0.0], [5e-324, -5e-324, 0.0], [1e-170, 1e-160, -1e-150]])
    y = np.empty_like(x)
    shared.rms_norm(alone, x, np.array([1.0, 2.0, -1.0]), 1e-6, y)
    assert y.tobytes() == naively(x, np.array([1.0, 2.0, -1.0]), 1e-6).tobytes()


def test_a_nan_stays_in_its_row(alone: I64, rng: np.random.Generator) -> None:
    x = rng.normal(size=(9, 5))
    want = naively(x, np.ones(5), 1e-6)
    x[2, 3] = np.nan
    y = np.empty_like(x)
    shared.rms_norm(alone, x, np.ones(5), 1e-6, y)
    assert np.isnan(y[2]).all()
    others = [row for row in range(9) if row != 2]
    assert y[others].tobytes() == want[others].tobytes()


def test_squares_that_overflow_leave_no_zeros_that_pass_for_numbers(alone: I64) -> None:
    x = np.array([[1e154, 1e154, 1.0], [1e155, 0.0, 1.0], [9e153, 9e153, 1.0]])
    y = np.empty_like(x)
    shared.rms_norm(alone, x, np.ones(3), 1e-6, y)
    assert np.isnan(y[:2]).all()
    assert y[2].tobytes() == naively(x[2:], np.ones(3), 1e-6).tobytes()
