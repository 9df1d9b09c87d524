"""SwiGLU, residual and the watch for values that are not finite."""

from __future__ import annotations

import numpy as np
import pytest

from naive import model as naive
from zeroulp.model.kernels import shared
from zeroulp.model.kernels.arrays import F64, I64
from zeroulp.model.kernels.elementwise import add_part, first_non_finite_row, swiglu_part

EDGES = [0.0, -0.0, 5e-324, -5e-324, 1e-300, 708.0, -708.0, 745.2, -745.2, -746.0, 1e5, -1e5, 1e308, -1e308]


def naive_swiglu(gate: F64, up: F64) -> F64:
    pairs = zip(gate.ravel().tolist(), up.ravel().tolist(), strict=True)
    return np.array([naive.silu(g) * u for g, u in pairs]).reshape(gate.shape)


@pytest.mark.parametrize("size", [1, 2, 63, 64, 65, 341, 3000])
def test_swiglu(alone: I64, rng: np.random.Generator, size: int) -> None:
    gate, up = rng.normal(size=(2, size)) * 10, rng.normal(size=(2, size))
    y = np.full_like(gate, np.nan)
    shared.swiglu(alone, gate, up, y)
    assert y.tobytes() == naive_swiglu(gate, up).tobytes()


def test_swiglu_of_edges(alone: I64) -> None:
    gate, up = (np.ascontiguousarray(grid) for grid in np.meshgrid(EDGES, [1.0, -1.0, 0.0, -0.0, 0.3]))
    y = np.full_like(gate, np.nan)
    shared.swiglu(alone, gate, up, y)
    assert y.tobytes() == naive_swiglu(gate, up).tobytes()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_swiglu_hides_nothing_that_is_not_finite(alone: I64, bad: float) -> None:
    gate, up, y = np.full((1, 70), 0.5), np.full((1, 70), 0.5), np.empty((1, 70))
    gate[0, 66] = bad
    shared.swiglu(alone, gate, up, y)
    assert not np.isfinite(y[0, 66])
    assert np.isfinite(np.delete(y, 66)).all()


def test_residual(alone: I64, rng: np.random.Generator) -> None:
    x, branch = rng.normal(size=(7, 5000)), rng.normal(size=(7, 5000))
    x[0, :2], branch[0, :2] = -0.0, [-0.0, 0.0]
    y = np.full_like(x, np.nan)
    shared.add(alone, x, branch, y)
    assert y.tobytes() == np.array([a + b for a, b in zip(x.flat, branch.flat, strict=True)]).tobytes()


@pytest.mark.parametrize("parts", [1, 2, 3, 7, 64])
@pytest.mark.parametrize("kernel", [swiglu_part, add_part])
def test_each_part_alone(rng: np.random.Generator, kernel, parts: int) -> None:  # type: ignore[no-untyped-def]
    a, b, written = rng.normal(size=150), rng.normal(size=150), np.zeros(150, np.int64)
    want = naive_swiglu(a, b) if kernel is swiglu_part else a + b
    for part in range(parts):
        y = np.full(150, np.nan)
        kernel(a, b, y, part, parts)
        here = ~np.isnan(y)
        assert y[here].tobytes() == want[here].tobytes()
        written += here
    assert (written == 1).all()


@pytest.mark.parametrize("bad", [np.nan, -np.nan, np.inf, -np.inf])
def test_first_non_finite_row(rng: np.random.Generator, bad: float) -> None:
    x = rng.uniform(-1, 1, (5, 19)) * 1.7e308
    x[0, 0], x[1, 1] = 5e-324, -0.0
    assert first_non_finite_row(x) == 5
    for column in range(19):
        for row in range(5):
            spoiled = x.copy()
            spoiled[row:, column] = bad
            assert first_non_finite_row(spoiled) == row


def test_no_rows_hold_nothing() -> None:
    assert first_non_finite_row(np.empty((0, 4))) == 0
