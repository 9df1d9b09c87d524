"""The elementary functions agree with MPFR in every bit."""

from __future__ import annotations

import math

import gmpy2  # type: ignore[import-untyped]
import numpy as np
import pytest

from naive.elementary_reference import F64, arguments, differing, reference
from zeroulp.model.kernels import elementary
from zeroulp.model.kernels.jit import kernel

COUNT = 200_000
NAMES = ("exp", "log", "log1p", "sin", "cos", "power")
INF, NAN = math.inf, math.nan


@kernel
def fill(which: int, x: F64, y: F64, out: F64) -> None:
    for i in range(x.size):
        if which == 0:
            out[i] = elementary.exp(x[i])
        elif which == 1:
            out[i] = elementary.log(x[i])
        elif which == 2:
            out[i] = elementary.log1p(x[i])
        elif which == 3:
            out[i] = elementary.sin(x[i])
        elif which == 4:
            out[i] = elementary.cos(x[i])
        else:
            out[i] = elementary.power(x[i], y[i])


def results(name: str, x: F64, y: F64 | None = None) -> F64:
    out = np.empty_like(x)
    fill(NAMES.index(name), x, x if y is None else y, out)
    return out


def bits(values: list[float]) -> list[str]:
    return ["nan" if v != v else v.hex() for v in values]


@pytest.mark.parametrize("name", NAMES)
def test_random_arguments(name: str) -> None:
    count = COUNT // 2 if name == "power" else COUNT
    x, y = arguments(name, np.random.default_rng(NAMES.index(name)), count)
    wrong = differing(results(name, x, y), reference(name, x, y))
    assert [(x[i].hex(), None if y is None else y[i].hex()) for i in wrong[:5]] == []


# The exact results lie within 2^-hardness ulp of a double or of the middle of two
# (mostly from V. Lefevre, J.-M. Muller, "Worst cases for correct rounding of the elementary functions in
# double precision"); the test computes how near.
HARD = (
    ("exp", "0x1.9e9cbbfd6080bp-31", 57),
    ("exp", "-0x1.ed318efb627eap-27", 59),
    ("exp", "0x1.83d4bcdebb3f4p+2", 57),
    ("log", "0x1.62a88613629b6p+678", 60),
    ("log1p", "0x1.8000000000003p-50", 99),
    ("sin", "0x1.e0000000001c2p-20", 72),
    ("sin", "0x1.598bae9e632f6p-7", 59),
    ("sin", "0x1.fe767739d0f6dp-2", 65),
    ("cos", "0x1.8000000000009p-23", 88),
    ("cos", "0x1.549ec0c0c5afap-5", 54),
    ("cos", "0x1.16e534ee36580p-4", 53),
    ("cos", "0x1.06b505550e6b2p-9", 58),
)


@pytest.mark.parametrize(("name", "argument", "hardness"), HARD)
def test_hardest_known(name: str, argument: str, hardness: int) -> None:
    x = np.array([float.fromhex(argument)])
    with gmpy2.context(precision=500):
        _, significand = gmpy2.frexp(abs(getattr(gmpy2, name)(gmpy2.mpfr(x[0]))))
        distance = abs(significand * 2**54 - gmpy2.rint(significand * 2**54))
        assert -gmpy2.log2(distance) >= hardness
    assert results(name, x)[0].hex() == reference(name, x)[0].hex()


def test_nearest_double_to_a_multiple_of_half_pi() -> None:
    x = np.array([math.ldexp(6381956970095103.0, 797)])
    assert results("cos", x)[0] == -4.6871659242546276e-19
    assert differing(results("sin", x), reference("sin", x)) == []


def test_where_a_c_library_was_wrong() -> None:
    x = np.array([-1.2438473289327143, -0.15448350941540712, -0.20450978860267643, -3.326737749364324])
    assert differing(results("exp", x), reference("exp", x)) == []


TINY, LEAST_NORMAL, LARGEST = 5e-324, 2.0**-1022, 1.7976931348623157e308
LIMITS = [2.0**-60, 2.0**-54, 2.0**-53, 2.0**-28, 2.0**-27, 2.0**-9, 1.4140625, 708.0, 746.0, 2.0**20]
OVERFLOW, UNDERFLOW = [709.782712893384, 709.7827128933841, 710.0], [745.1332191019411, 745.1332191019412]
SPECIAL = [0.0, TINY, 3 * TINY, LEAST_NORMAL, 0.5, 1.0, 2.0, math.pi, 2.0**60, LARGEST, INF, NAN]
EDGES = [*SPECIAL, *LIMITS, *OVERFLOW, *UNDERFLOW]


@pytest.mark.parametrize("name", NAMES[:5])
def test_edges(name: str) -> None:
    points = np.array(EDGES)
    finite = points[points < INF]
    near = [np.nextafter(finite[1:], -INF), points, np.nextafter(finite[finite < LARGEST], INF)]
    x = np.concatenate([*near, *(-part for part in near)])
    want = reference(name, x)
    assert [x[i] for i in differing(results(name, x), want)] == []


def test_powers_of_edges() -> None:
    points = np.array([*EDGES, 3.0, 4.0, 53.0, 1074.0, 1075.0, 2.0**53 - 1, 2.0**53, 1.5, 1 / 3])
    points = np.concatenate([points, -points])
    x, y = (grid.ravel() for grid in np.meshgrid(points, points))
    want = reference("power", x, y)  # MPFR's special values are C99's too
    assert [(x[i], y[i]) for i in differing(results("power", x, y), want)] == []


@pytest.mark.parametrize(
    ("x", "y", "value"),
    [
        (2.0, -1075.0, 0.0),  # half-way between 0 and the least subnormal
        (2.0, -1074.0, TINY),
        (3.0, 34.0, 16677181699666568.0),  # 54 bits: half-way, to even
        (9.0, 17.0, 16677181699666568.0),
        (4.0, -537.5, 0.0),
        (-0.0, -3.0, -INF),
        (-0.0, 2.0, 0.0),
        (-INF, 3.0, -INF),
        (-1.0, INF, 1.0),
        (-8.0, 1 / 3, NAN),
        (NAN, 0.0, 1.0),
        (1.0, NAN, 1.0),
    ],
)
def test_special_powers(x: float, y: float, value: float) -> None:
    assert bits(results("power", np.array([x]), np.array([y])).tolist()) == bits([value])


def test_array_form_is_the_scalar_form() -> None:
    x, _ = arguments("exp", np.random.default_rng(9), COUNT)
    x = np.concatenate([x[~np.isnan(x)], np.linspace(-30, 0, COUNT), [NAN]])
    for shift in (0.0, 0.3):
        y = np.empty_like(x)
        elementary.exp_into(x, 0, x.size, shift, y)
        assert differing(y, results("exp", x - shift)) == []


@pytest.mark.parametrize("last", [3, 4, 64, 65, 131])
def test_array_form_in_place_and_within_bounds(last: int) -> None:
    x = np.random.default_rng(last).uniform(-800, 0, 200)
    want = x.copy()
    want[3:last] = results("exp", x[3:last] - 0.5)
    elementary.exp_into(x, 3, last, 0.5, x)
    assert differing(x, want) == []
