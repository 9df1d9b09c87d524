"""The constants and tables of the elementary functions, computed at import from exact integers.

Nothing here is a literal to be trusted: pi and ln 2 come from Machin-like formulas over Python's integers,
the tables from Taylor series over the same. Conversions to double round once (Python's ``int / int`` is
correctly rounded).
"""

from __future__ import annotations

import math
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from zeroulp.model.kernels.arrays import F64

U64: TypeAlias = NDArray[np.uint64]

FRACTION_BITS = 256
"""Fraction bits of a fixed-point number: four limbs; a fifth holds the whole part."""

_P = 1664
_ONE = 1 << _P


def _inverse_series(n: int, sign: int) -> int:
    """Return ``2^_P sum sign^k / ((2k+1) n^(2k+1))``: arctan(1/n) for sign -1, artanh(1/n) for +1."""
    power, total, k = _ONE // n, 0, 0
    while power:
        total += (sign**k) * (power // (2 * k + 1))
        power //= n * n
        k += 1
    return total


PI = 4 * (4 * _inverse_series(5, -1) - _inverse_series(239, -1))  # Machin; error < 2^12 units of 2^-_P
LN2 = 2 * _inverse_series(3, 1)


def _series(x: int, first: int, step: int, sign: int) -> int:
    """Return ``sum sign^i x^n / n!`` over ``n = first, first + step, ...`` for x in units of 2^-256."""
    unit = FRACTION_BITS
    term = x if first else 1 << unit
    total, n, factor = 0, first, 1
    while term:
        total += factor * term
        factor *= sign
        for _ in range(step):
            n += 1
            term = (term * x >> unit) // n
    return total


def _to_256(value: int) -> int:
    return value >> (_P - FRACTION_BITS)


def _double(numerator: int) -> float:
    """Return the double nearest to ``numerator * 2^-256``."""
    return numerator / (1 << FRACTION_BITS)


def _top(numerator: int, unit: int) -> float:
    """Return ``numerator * 2^-256`` rounded to a multiple of 2^-unit; the caller knows it fits a double."""
    shift = FRACTION_BITS - unit
    return ((numerator + (1 << shift >> 1)) >> shift) / (1 << unit)


def _fraction(value: float) -> int:
    numerator, denominator = value.as_integer_ratio()
    return numerator * (1 << FRACTION_BITS) // denominator


def _parts(numerator: int, units: tuple[int, ...]) -> tuple[float, ...]:
    """Split into multiples of 2^-unit for each unit, and the double nearest to what is left."""
    parts = []
    for unit in units:
        parts.append(_top(numerator, unit))
        numerator -= _fraction(parts[-1])
    return (*parts, _double(numerator))


def _limbs(value: int) -> tuple[np.uint64, ...]:
    return tuple(np.uint64(value >> (64 * i) & (2**64 - 1)) for i in range(5))


# --- fixed point ------------------------------------------------------------------------------------

FIXED_LN2 = _limbs(_to_256(LN2))
FIXED_HALF_PI = _limbs(_to_256(PI) >> 1)

INVERSE_FACTORIALS: U64 = np.array([_limbs((1 << FRACTION_BITS) // math.factorial(n)) for n in range(64)])
INVERSES: U64 = np.array([_limbs((1 << FRACTION_BITS) // max(n, 1)) for n in range(8)])

TWO_OVER_PI_LEAD = 3
"""Zero limbs before the binary point of TWO_OVER_PI, so that small arguments index it too."""

_two_over_pi = (1 << (_P + 1472 + 1)) // PI  # 23 limbs of fraction
TWO_OVER_PI: U64 = np.array(
    [np.uint64(0)] * TWO_OVER_PI_LEAD
    + [np.uint64(_two_over_pi >> (64 * i) & (2**64 - 1)) for i in reversed(range(23))]
)
"""2/pi, most significant limb first."""

# --- exp --------------------------------------------------------------------------------------------

EXP_STEPS = 256
_step = _to_256(LN2) // EXP_STEPS
EXP_INVERSE_STEP = (1 << (FRACTION_BITS)) / _step
EXP_STEP_TOP, EXP_STEP_REST = _parts(_step, (42,))

_powers = [_series(_step * j, 0, 1, 1) for j in range(EXP_STEPS)]  # 2^(j/256)
EXP_TOP: F64 = np.array([_top(p, 26) for p in _powers])
EXP_REST: F64 = np.array([_double(p - _fraction(_top(p, 26))) for p in _powers])

# --- sin and cos ------------------------------------------------------------------------------------

TURN_STEPS = 1024
_turn = _to_256(PI) * 2 // TURN_STEPS
TURN_INVERSE_STEP = (1 << FRACTION_BITS) / _turn
TURN_1, TURN_2, TURN_3, TURN_4 = _parts(_turn, (32, 57, 82))


def _sines() -> list[int]:
    """Return sin(2 pi j / TURN_STEPS) for all j, from the first quarter."""
    quarter = TURN_STEPS // 4
    rising = [_series(_turn * j, 1, 2, -1) for j in range(quarter)] + [1 << FRACTION_BITS]
    half = rising + rising[-2:0:-1]
    return half + [-s for s in half]


_all_sines = _sines()
SINE_TOP: F64 = np.array([_double(s) for s in _all_sines])
SINE_REST: F64 = np.array([_double(s - _fraction(_double(s))) for s in _all_sines])

# --- log --------------------------------------------------------------------------------------------

LOG_STEPS = 512
LOG_FOLD = 212
"""Mantissas from 1 + 212/512 = 1.4140625 on are halved, so that logarithms near 0 need no cancellation."""


def _log(numerator: int, denominator: int) -> int:
    """Return log(numerator/denominator) in units of 2^-256: 2 artanh of (n-d)/(n+d)."""
    z = ((numerator - denominator) << FRACTION_BITS) // (numerator + denominator)
    square = z * z >> FRACTION_BITS
    total, n = 0, 1
    while z not in (0, -1):
        total += z // n
        z = z * square >> FRACTION_BITS
        n += 2
    return 2 * total


def _log_inverses() -> list[int]:
    """Return for each i the c, in units of 1/2048, near 1/m for mantissas m in ``1 + [i, i+1) / LOG_STEPS``.

    From LOG_FOLD on m is halved, so c is near 2/m. In the first and the last interval, around m = 1, c is 1.
    """
    inverses = []
    for i in range(LOG_STEPS):
        centre = 2 * LOG_STEPS + 2 * i + 1  # in units of 1 / (2 * LOG_STEPS)
        inverses.append(round((2 if i >= LOG_FOLD else 1) * 2048 * 2 * LOG_STEPS / centre))
    inverses[0] = inverses[-1] = 2048
    return inverses


_inverses = _log_inverses()
LOG_INVERSE: F64 = np.array([c / 2048 for c in _inverses])
LOG_LN2_TOP, LOG_LN2_REST = _parts(_to_256(LN2), (42,))
LOG_TOP: F64 = np.array([_top(_log(2048, c), 42) for c in _inverses])
LOG_REST: F64 = np.array([_double(_log(2048, c) - _fraction(_top(_log(2048, c), 42))) for c in _inverses])
