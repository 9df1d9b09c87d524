"""Each path of the elementary functions alone: the accurate one is right, the fast one knows when it is."""

from __future__ import annotations

import gmpy2  # type: ignore[import-untyped]
import numpy as np
import pytest

from naive.elementary_reference import F64, arguments, differing, reference
from zeroulp.model.kernels.elementary_exact import COS, EXP, LOG, LOG1P, POWER, SIN
from zeroulp.model.kernels.elementary_fast import (
    COSINE,
    EXP_LIMIT,
    SINE,
    TURN_LIMIT,
    fast_exp,
    fast_log,
    fast_log1p,
    fast_turn,
    scaled_by,
)
from zeroulp.model.kernels.elementary_rare import rare
from zeroulp.model.kernels.jit import kernel

FUNCTIONS = {"exp": EXP, "log": LOG, "log1p": LOG1P, "sin": SIN, "cos": COS, "power": POWER}
FAST = ("exp", "log", "log1p", "sin", "cos")


@kernel
def accurate(which: int, x: F64, y: F64, out: F64) -> None:
    for i in range(x.size):
        out[i] = rare(which, x[i], y[i])


@kernel
def fast(which: int, x: F64, high: F64, low: F64, error: F64, power_of_two: F64) -> None:
    for i in range(x.size):
        power_of_two[i] = 1.0
        if which == EXP:
            high[i], low[i], error[i], bits = fast_exp(x[i])
            power_of_two[i] = scaled_by(1.0, bits)
        elif which == LOG:
            high[i], low[i], error[i] = fast_log(x[i], 0.0, 0.0)
        elif which == LOG1P:
            high[i], low[i], error[i] = fast_log1p(x[i])
        elif which == SIN:
            high[i], low[i], error[i] = fast_turn(x[i], SINE)
        else:
            high[i], low[i], error[i] = fast_turn(x[i], COSINE)


def accurate_results(name: str, x: F64, y: F64 | None = None) -> F64:
    out = np.empty_like(x)
    accurate(FUNCTIONS[name], x, x if y is None else y, out)
    return out


def fast_domain(name: str, x: F64) -> F64:
    size = np.abs(x)
    if name == "exp":
        return x[size <= EXP_LIMIT]
    if name == "log":
        x = x[(x >= 2.0**-1022) & (x < np.inf)]
        return x[np.abs(x - 1) > 2.0**-40]  # nearer to 1 many are hard
    if name == "log1p":
        return x[(x > -1) & (size >= 2.0**-54) & (x < np.inf)]
    return x[(size >= 2.0**-27) & (size <= TURN_LIMIT)]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_accurate_path_alone(name: str) -> None:
    x, y = arguments(name, np.random.default_rng(100), 10_000)
    wrong = differing(accurate_results(name, x, y), reference(name, x, y))
    assert [x[i].hex() for i in wrong[:5]] == []


@pytest.mark.parametrize("name", FAST)
def test_fast_path_is_right_where_it_decides_and_mostly_decides(name: str) -> None:
    x = fast_domain(name, arguments(name, np.random.default_rng(200), 100_000)[0])
    high, low, error, power_of_two = fast_results(name, x)
    below = high + (low - error)
    decided = below == high + (low + error)
    assert np.count_nonzero(~decided) < x.size / 500
    assert differing((below * power_of_two)[decided], accurate_results(name, x[decided])) == []


@pytest.mark.parametrize("name", FAST)
def test_fast_path_keeps_its_error_bound(name: str) -> None:
    x = fast_domain(name, arguments(name, np.random.default_rng(300), 20_000)[0])
    worst = 0.0
    with gmpy2.context(precision=250):
        for argument, high, low, error, scale in zip(x.tolist(), *fast_results(name, x), strict=True):
            exact = getattr(gmpy2, name)(gmpy2.mpfr(argument)) / scale
            # The rounding of low +- error has to fit too.
            distance = abs(gmpy2.mpfr(high) + low - exact) + abs(low) * 2.0**-53
            worst = max(worst, float(distance / error) if error else 0.0)
    assert worst < 1.0


def fast_results(name: str, x: F64) -> tuple[F64, F64, F64, F64]:
    columns = (np.empty_like(x), np.empty_like(x), np.empty_like(x), np.empty_like(x))
    fast(FUNCTIONS[name], x, *columns)
    return columns
