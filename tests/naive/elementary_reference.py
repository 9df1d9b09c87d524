"""The elementary functions by MPFR (gmpy2): binary64 with its subnormals, one rounding to nearest even."""

from __future__ import annotations

import functools
from typing import Any

import gmpy2  # type: ignore[import-untyped]
import numpy as np
from numpy.typing import NDArray

BINARY64 = gmpy2.context(precision=53, emin=-1073, emax=1024, subnormalize=True, round=gmpy2.RoundToNearest)

F64 = NDArray[np.float64]


def reference(name: str, x: F64, y: F64 | None = None) -> F64:
    """Return function ``name`` of each x (and y, for power)."""
    function: Any = functools.partial(pow) if name == "power" else getattr(gmpy2, name)
    with gmpy2.context(BINARY64):
        columns = [map(gmpy2.mpfr, column.tolist()) for column in (x, y) if column is not None]
        return np.array([float(function(*row)) for row in zip(*columns, strict=True)])


def differing(got: F64, want: F64) -> list[int]:
    """Return where two arrays differ in any bit; one NaN is as good as another."""
    same = (got.view(np.uint64) == want.view(np.uint64)) | (np.isnan(got) & np.isnan(want))
    return list(np.flatnonzero(~same))


def scattered_bits(rng: np.random.Generator, count: int) -> F64:
    """Return doubles of uniformly distributed bits: every exponent, both signs, a few NaN and infinities."""
    return rng.integers(0, 2**64, count, dtype=np.uint64).view(np.float64)


def arguments(name: str, rng: np.random.Generator, count: int) -> tuple[F64, F64 | None]:
    """Return about ``count`` arguments of function ``name``, an equal share from each of its domains."""
    if name == "power":
        return _power_arguments(rng, count // 9)
    uniform, n = rng.uniform, count // 5
    near_zero = uniform(-1, 1, n) * 2.0 ** uniform(-60, 1, n)
    bits = scattered_bits(rng, n)
    domains = {
        "exp": (uniform(-750, 712, n), uniform(-30, 0, n), near_zero, uniform(-746, -707, n // 8), bits),
        "log": (np.abs(bits), bits, uniform(0.4, 2.5, n), 1 + near_zero / 2, uniform(0, 1e-308, n // 8)),
        "log1p": (uniform(-1, 2, n), uniform(0, 1e5, n), near_zero, near_zero * 2.0**60, bits),
        "sin": (uniform(-10, 10, n), uniform(-1e6, 1e6, n), near_zero, uniform(-1e9, 1e9, n // 8),
                np.round(uniform(-6e5, 6e5, n)) * (np.pi / 2), bits[: n // 4]),
    }  # fmt: skip
    return np.concatenate(domains["sin" if name == "cos" else name]), None


def _power_arguments(rng: np.random.Generator, n: int) -> tuple[F64, F64]:
    def whole(low: float, high: float) -> F64:
        return np.floor(rng.uniform(low, high, n))

    uniform = rng.uniform
    pairs = (
        (uniform(0, 1e6, n), -2 * whole(0, 64) / 128),
        (uniform(0, 10, n), uniform(-300, 300, n)),
        (np.abs(scattered_bits(rng, n)), uniform(-2, 2, n)),
        (1 + uniform(-1, 1, n) * 2.0 ** uniform(-52, -3, n), uniform(-1, 1, n) * 2.0 ** uniform(0, 62, n)),
        (whole(-300, 300), whole(-20, 20)),  # exact and half-way cases here and below
        (whole(1, 200) ** 2, whole(-9, 20) / 2),
        (whole(1, 20) ** 4 * 2.0**-8, whole(-9, 20) / 4),
        (2.0 ** whole(-40, 40), whole(-190, 190) / 4),
        (scattered_bits(rng, n), scattered_bits(rng, n)),
    )
    return np.concatenate([x for x, _ in pairs]), np.concatenate([y for _, y in pairs])
