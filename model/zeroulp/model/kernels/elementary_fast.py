"""The fast paths: a result as ``high + low`` with a proven error, decided if both ends of it round alike.

Plain IEEE + - * of doubles, no fused operation, no branch. ``u`` is 2^-53, the relative error of one
operation. Each function returns high, low and a bound of the error of their exact sum that also covers
the rounding of ``low +- error``. Rounding is monotonic: if ``high + (low - error)`` and
``high + (low + error)`` are equal, the exact result rounds to the same. About one argument in 10,000 needs
the accurate path.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from zeroulp.model.kernels.elementary_bits import bits_of, double_of
from zeroulp.model.kernels.elementary_constants import (
    EXP_INVERSE_STEP,
    EXP_REST,
    EXP_STEP_REST,
    EXP_STEP_TOP,
    EXP_STEPS,
    EXP_TOP,
    LOG_FOLD,
    LOG_INVERSE,
    LOG_LN2_REST,
    LOG_LN2_TOP,
    LOG_REST,
    LOG_TOP,
    SINE_REST,
    SINE_TOP,
    TURN_1,
    TURN_2,
    TURN_3,
    TURN_4,
    TURN_INVERSE_STEP,
    TURN_STEPS,
)
from zeroulp.model.kernels.jit import kernel

EXP_LIMIT = 708.0
"""exp(-708) and exp(708) are normal numbers."""
TURN_LIMIT = 2.0**20
"""sin and cos beyond it take the accurate path at once."""
SINE: Any = np.uint64(0)
COSINE: Any = np.uint64(TURN_STEPS // 4)
"""Where in the circle of sines the function starts. (Not plain integers: numba would compile for each.)"""

_TO_WHOLE = 1.5 * 2.0**52  # added and subtracted: rounds to a whole number, whose low bits the sum shows
_TO_2_35 = 1.5 * 2.0**17  # the same for a multiple of 2^-35
_SPLIT = 2.0**27 + 1.0
_EXP_ERROR = 2.0**-68
_LOG_ERROR = 2.0**-68
_TURN_ERROR = 2.0**-66
_TURN_ERROR_OF_REDUCTION = 2.0**-104

_EXP_INDEX = np.uint64(EXP_STEPS - 1)
_EXP_EXPONENT_SHIFT = np.uint64(52 - 8)  # EXP_STEPS is 2^8
_EXP_WHOLE = np.uint64(2**64 - EXP_STEPS)
_TURN_INDEX = np.uint64(TURN_STEPS - 1)
_EXPONENT_SHIFT = np.uint64(52)
_FRACTION_MASK = np.uint64(2**52 - 1)
_ONE_BITS = np.uint64(1023 << 52)
_HALF_BITS = np.uint64(1022 << 52)
_LOG_INDEX_SHIFT = np.uint64(52 - 9)  # LOG_STEPS is 2^9
_UPPER_26 = np.uint64(2**64 - 2**27)


@kernel
def two_sum(a: float, b: float) -> tuple[float, float]:
    """Return the rounded a + b and its error, exactly."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


@kernel
def two_product(a: float, b: float) -> tuple[float, float]:
    """Return the rounded a * b and its error, exactly (Dekker; no part of it may overflow or underflow)."""
    product = a * b
    scaled_a, scaled_b = _SPLIT * a, _SPLIT * b
    a1 = scaled_a - (scaled_a - a)
    b1 = scaled_b - (scaled_b - b)
    a2, b2 = a - a1, b - b1
    return product, (((a1 * b1 - product) + a1 * b2) + a2 * b1) + a2 * b2


@kernel
def scaled_by(x: float, bits: int) -> float:
    """Return ``x * 2^(k >> 8)`` for the k in the low part of bits; x and the result are normal numbers.

    The exponent's field takes k >> 8 modulo 2^12; what stands above k in bits is shifted out.
    """
    return double_of(bits_of(x) + ((bits & _EXP_WHOLE) << _EXP_EXPONENT_SHIFT))


@kernel
def fast_exp(x: float) -> tuple[float, float, float, int]:
    """Return high, low, error and bits with ``e^x = (high + low +- error) * 2^k`` for |x| <= EXP_LIMIT.

    `scaled_by` multiplies with 2^k, which bits hold.

    x = k * s + r with s = ln 2 / 256 and |r| <= s/2 < 2^-9.52; ``e^x = 2^(k >> 8) * t * e^r``, ``t = 2^((k &
    255) / 256)`` in [1, 2) as t1 (27 bits) + t2.

    - |k| < 2^18 and s's top has 34 bits: k * top is exact. It and x are multiples of 2^-62 (if k is not 0),
      and their difference is below 2^-9: exact. r1, a multiple of 2^-35, has 26 bits: t1 * r1 is exact. r2 <=
      2^-24.9; k * rest, the sum and rest itself are wrong by 2^-78 + 2^-78 + 2^-79.
    - q = e^r - 1 - r <= 2^-20.04; the term left out is r^7/5040 < 2^-78. Relative roundings: r twice, r * r,
      the sum 1/2 + ..., their product: 5.1 u, so 2^-70.6.
    - Relative to t, the sums in ``low`` have three roundings of parts <= 2^-19.9: 3 * 2^-72.9; the fourth is
      that of low + error. Together < 2^-69.3 of t e^r: below the 2^-68 that is tested.
    """
    shifted = x * EXP_INVERSE_STEP + _TO_WHOLE
    k = shifted - _TO_WHOLE
    bits = bits_of(shifted)
    t1, t2 = EXP_TOP[bits & _EXP_INDEX], EXP_REST[bits & _EXP_INDEX]
    r = x - k * EXP_STEP_TOP
    r1 = (r + _TO_2_35) - _TO_2_35
    r2 = (r - r1) - k * EXP_STEP_REST
    r = r1 + r2
    q = (r * r) * (0.5 + r * (1.0 / 6.0 + r * (1.0 / 24.0 + r * (1.0 / 120.0 + r * (1.0 / 720.0)))))
    p = r2 + q
    step = t1 * r1
    high = t1 + step
    low = (step - (high - t1)) + (t2 + (t1 * p + t2 * (r1 + p)))
    return high, low, high * _EXP_ERROR, bits


@kernel
def fast_log_parts(m: float, more: float, k: float, cell: np.int64) -> tuple[float, float, float]:
    """Return high, low, error of ``log((m + more) * 2^k)``, m in the table's cell.

    0.7 <= m < 1.42 and |more| <= u m. With c near 1/m (12 bits) and r = c (m + more) - 1,
    ``log = k ln 2 - log c + log(1 + r)``.

    - m1 (26 bits) * c - 1 and m2 * c are exact; r + rest is their exact sum, and c * more at most 2^-53.
    - top + r, minus r^2/2 (its rounded square's error is known exactly) are summed without loss.
    - k ln 2 - log c: the tops are multiples of 2^-42, and their sum, below 2^10, is exact.
    - |r| < 2^-9 in the cells next to 1, where top = rest = 0 and the result is near r: r^3/3 - ... is 2^-19.5
      of it, and the term left out, r^9/9, 2^-75. Relative roundings: r * r, * r, the polynomial's last sum
      (1.1 u) and the product: 4.1 u, so 2^-70.4, then three roundings in ``low``: 3 * 2^-72.5. In all <
      2^-69.
    - Elsewhere |r| < 2^-9.5 and the result is over 2^-9 (2^-10 below 1, with |r| < 2^-10.4), so that these
      roundings weigh less than 2^-1.8 of that. ``k * rest`` is wrong by 2^-86, the result then over 0.34.
      With ``more``, |rest| is up to 2^-53: of log(1 + r + rest), rest (1 - r + r^2) is kept, r^3 rest
      below 2^-81.5 left out, less than 2^-71.5 of the result.
    """
    c = LOG_INVERSE[cell]
    m1 = double_of(bits_of(m) & _UPPER_26)
    r, rest = two_sum(m1 * c - 1.0, (m - m1) * c)
    rest += more * c
    return fast_log_sum(r, rest, k * LOG_LN2_TOP + LOG_TOP[cell], k * LOG_LN2_REST + LOG_REST[cell])


@kernel
def fast_log_sum(r: float, rest: float, top: float, top_rest: float) -> tuple[float, float, float]:
    """Return high, low, error of ``top + top_rest + log(1 + r + rest)``: see `fast_log_parts`."""
    square, square_rest = two_product(r, r)
    cubic = (square * r) * (
        1.0 / 3.0 - r * (0.25 - r * (0.2 - r * (1.0 / 6.0 - r * (1.0 / 7.0 - r * 0.125))))
    )
    first, first_rest = two_sum(top, r)
    high, high_rest = two_sum(first, -0.5 * square)
    small = ((rest - r * (rest - r * rest)) + top_rest) - 0.5 * square_rest
    low = (first_rest + high_rest) + (small + cubic)
    return high, low, abs(high) * _LOG_ERROR


@kernel
def fast_log(x: float, more: float, k: float) -> tuple[float, float, float]:
    """Return high, low, error of ``log((x + more) * 2^k)`` for a normal x > 0 and |more| <= u x."""
    bits = bits_of(x)
    cell = (bits & _FRACTION_MASK) >> _LOG_INDEX_SHIFT
    exponent = float(np.int64(bits >> _EXPONENT_SHIFT) - 1023)
    if cell >= np.uint64(LOG_FOLD):
        exponent += 1.0
        m = double_of(bits & _FRACTION_MASK | _HALF_BITS)
    else:
        m = double_of(bits & _FRACTION_MASK | _ONE_BITS)
    if more != 0.0:
        more *= m / x
    return fast_log_parts(m, more, k + exponent, np.int64(cell))


@kernel
def fast_turn(x: float, start: int) -> tuple[float, float, float]:
    """Return high, low, error of sin x or cos x, for start SINE or COSINE, 2^-28 <= |x| <= TURN_LIMIT.

    x = k * s + r with s = 2 pi / 1024, |r| <= s/2 < 2^-8.34; with S, C the sine and cosine of the angle
    ``k s`` (for cos, a quarter further; top and rest): ``S + C r + C (sin r - r) + S (cos r - 1)``.

    - |k| < 2^28, and three parts of s have at most 25 bits each: the products are exact, so is the first
      difference (x and k * part are multiples of x's ulp, and it is smaller than 2 |x|). The error of r +
      rest comes from the last product and sums of numbers below 2^-55: < 2^-105 in all.
    - C r is exact but for 2^-105. S (cos r - 1) is at most 2^-17.68 S; roundings: r twice, r * r, the last
      sum, two products: 6.1 u, then three sums: 2^-67.5 S; the result is over S/2. The cubic part, 2^-27.6,
      with 7 u: 2^-77.8, and the result over 2^-8.4 or, where S = 0, near r and the cubic part 2^-19.3 of it.
      All together < 2^-66.1 of the result, plus the error of r.
    """
    shifted = x * TURN_INVERSE_STEP + _TO_WHOLE
    k = shifted - _TO_WHOLE
    at = bits_of(shifted) + start
    across = at + COSINE
    s, s_rest = SINE_TOP[at & _TURN_INDEX], SINE_REST[at & _TURN_INDEX]
    c, c_rest = SINE_TOP[across & _TURN_INDEX], SINE_REST[across & _TURN_INDEX]
    first, first_rest = two_sum(x - k * TURN_1, -(k * TURN_2))
    second, second_rest = two_sum(first, -(k * TURN_3))
    r, rest = two_sum(second, (first_rest + second_rest) - k * TURN_4)
    square = r * r
    sine_less_r = (square * r) * (-1.0 / 6.0 + square * (1.0 / 120.0 - square * (1.0 / 5040.0)))
    cosine_less_1 = square * (-0.5 + square * (1.0 / 24.0 - square * (1.0 / 720.0)))
    product, product_rest = two_product(c, r)
    high, high_rest = two_sum(s, product)
    small = ((s_rest + product_rest) + (c * rest + c_rest * r)) + c * sine_less_r
    low = high_rest + (small + s * cosine_less_1)
    return high, low, abs(high) * _TURN_ERROR + _TURN_ERROR_OF_REDUCTION


@kernel
def fast_log1p(x: float) -> tuple[float, float, float]:
    """Return high, low, error of ``log(1 + x)`` for a finite x > -1 with |x| >= 2^-54."""
    if abs(x) < 2.0**-9:
        return fast_log_sum(x, 0.0, 0.0, 0.0)
    total, rest = two_sum(1.0, x)
    return fast_log(total, rest, 0.0)
