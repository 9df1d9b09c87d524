"""The accurate path: exp, log, log1p, sin, cos and power to 180 bits or more, then rounded once.

It serves the arguments whose fast result lies too near a rounding boundary to decide, and all unusual ones.
No result of exp, log, log1p, sin or cos other than the trivial ones (which the caller returns itself) is a
boundary, since it is transcendental; the hardest known ones need about 120 bits. The boundaries that
``power`` meets are exact cases, which are computed as integers.

All functions take one way through the code, and helpers are called from as few places as possible: the
compiler copies them. Errors are counted in units of 2^-256.
"""

from __future__ import annotations

import numpy as np

from zeroulp.model.kernels.elementary_bits import Integer, inlined, multiply_add
from zeroulp.model.kernels.elementary_constants import (
    FIXED_HALF_PI,
    FIXED_LN2,
    INVERSE_FACTORIALS,
    INVERSES,
    TWO_OVER_PI,
    TWO_OVER_PI_LEAD,
)
from zeroulp.model.kernels.fixed_point import (
    ONE,
    SIGN,
    WORD_BITS,
    ZERO,
    Fixed,
    add,
    from_double,
    leading_zeros,
    multiply,
    nearest_double,
    row,
    scaled,
    shift_left,
    shift_right,
    significand_and_exponent,
    subtract,
)

EXP, LOG, LOG1P, SIN, COS, POWER = range(6)

_FIXED_ONE = (ZERO, ZERO, ZERO, ZERO, ONE)
_FIXED_ZERO = (ZERO, ZERO, ZERO, ZERO, ZERO)
_EIGHT = np.uint64(8)
_LN2 = 0.6931471805599453


@inlined
def exact(which: int, x: float, y: float, guess: float) -> float:
    """Return function ``which`` of x, rounded correctly.

    EXP: ``2^-60 < |x| < 800``. LOG: finite x > 0 other than 1. LOG1P: finite x > -1 with |x| >= 2^-54. These
    and POWER want ``guess``, the logarithm within 2^-42. SIN, COS: finite x with |x| >= 2^-28. POWER: finite
    x > 0 other than 1, ``2^-60 < |y log x| < 800``, and not an `exact_case`.
    """
    if which in (SIN, COS):
        value, negative = fixed_turn(x, which - SIN)
        return rounded(value, 0, negative)
    if which == EXP:
        z, negative = from_double(x, 0), x < 0.0
    else:
        z, negative = fixed_log(x, which == LOG1P, guess)
        if which != POWER:
            return rounded(z, 0, negative)
        # log x is wrong by less than 2^13 units and not below 2^-53: 2^-190 of it, so y log x by less than
        # 2^-180. |y| >= 2^-70 and |y log x| < 800. y = M * 2^e: log x < 2^10 times M fits in the whole limb.
        significand, shift = significand_and_exponent(y)
        z = scaled(shift_left(z, np.uint64(max(shift, 0))), significand)
        z = shift_right(z, np.uint64(max(-shift, 0)))
        negative = negative != (y < 0.0)
    # e^z = 2^k * e^(z - k ln 2)
    size = float(np.int64(z[4])) + float(np.int64(z[3] >> ONE)) * 2.0**-63
    k = np.int64(np.floor((-size if negative else size) * (1.0 / _LN2)))
    ln2s = scaled(FIXED_LN2, np.uint64(abs(k)))
    r = subtract(ln2s, z) if negative else subtract(z, ln2s)
    if r[4] >= SIGN:  # k was 1 too high
        r = add(r, FIXED_LN2)
        k -= 1
    return rounded(fixed_exp(r), k, False)


@inlined
def rounded(value: Fixed, exponent: Integer, negative: bool) -> float:
    """Return the double nearest to ``value * 2^exponent``, or to minus that."""
    result = nearest_double(value, exponent)
    return -result if negative else result


@inlined
def fixed_exp(r: Fixed) -> Fixed:
    """Return e^r for 0 <= r < 0.7, with an error below 2^11 units.

    ``(sum_n s^n / n!)^256`` with ``s = r / 256 < 2^-8.5``; the first term left out, s^23/23!, is below
    2^-269. Horner ends with less than 3 units, and each squaring doubles the error relative to the value and
    adds about one unit: less than (256 * 3 + 256) e^r in all.
    """
    s = shift_right(r, _EIGHT)
    total = _FIXED_ZERO
    for n in range(22, -1, -1):
        total = add(row(INVERSE_FACTORIALS, n), multiply(total, s))
    for _ in range(8):
        total = multiply(total, total)
    return total


@inlined
def fixed_log(x: float, plus_one: bool, guess: float) -> tuple[Fixed, bool]:
    """Return the size of log x or log(1 + x), with an error below 2^13 units, and whether it is negative.

    The argument is ``m * 2^k`` with 1 <= m < 2. With ``g = max(guess - k ln 2 - 2^-40, 0)`` and ``d = m / e^g
    - 1``, ``-2^-240 < d < 2^-39``: ``log m = g + log(1 + d)``, and six terms of the series leave d^7/7 <
    2^-275. ``e^-g = e^(ln 2 - g) / 2`` keeps the argument of exp positive.
    """
    exponent: Integer
    significand, exponent = significand_and_exponent(x)
    one = plus_one and exponent < 10
    if one:  # |x| < 2^63 and x is a multiple of 2^-106: 1 + x is exact
        exponent = 0
    else:
        exponent += 63 - np.int64(leading_zeros((ZERO, ZERO, ZERO, ZERO, significand)))
    m = from_double(x, -exponent)
    if one:
        m = subtract(_FIXED_ONE, m) if x < 0.0 else add(m, _FIXED_ONE)
        exponent = 63 - np.int64(leading_zeros(m))
        m = shift_right(shift_left(m, np.uint64(max(-exponent, 0))), np.uint64(max(exponent, 0)))
    elif plus_one:  # m + 2^-exponent; what is below 2^-256 of m is truncated
        m = add(m, shift_right(_FIXED_ONE, np.uint64(exponent)))
    g = from_double(max(guess - exponent * _LN2 - 2.0**-40, 0.0), 0)
    d = subtract(multiply(m, fixed_exp(subtract(FIXED_LN2, g))), add(_FIXED_ONE, _FIXED_ONE))
    log = g
    if d[4] < SIGN:  # else m = 1 and d < 0 is the error of exp
        d = shift_right(d, ONE)
        series = _FIXED_ZERO
        for n in range(6, 0, -1):
            series = multiply(d, subtract(row(INVERSES, n), series))
        log = add(g, series)
    ln2s = scaled(FIXED_LN2, np.uint64(abs(exponent)))
    if exponent >= 0:
        return add(log, ln2s), False
    return subtract(ln2s, log), True


@inlined
def fixed_turn(x: float, quarters: int) -> tuple[Fixed, bool]:
    """Return the size of ``sin(x + quarters * pi/2)``, 0 or 1 quarters, and whether it is negative.

    ``|x| * 2/pi`` modulo 2^64 with 320 bits of fraction: |x| = M * 2^e, and the limbs of 2/pi * 2^e are cut
    out of the long constant, so that no bit above 2^64 is ever formed. The error is below 2 units after the
    lowest limb is dropped, and no double is nearer than about 2^-62 to a multiple of pi/2: a relative error <
    2^-190.
    """
    significand, exponent = significand_and_exponent(x)
    start = 64 * (TWO_OVER_PI_LEAD - 1) + exponent
    first, up = start >> 6, np.uint64(start & 63)
    carry = ZERO
    w = _FIXED_ZERO
    for i in range(5, -1, -1):
        limb = TWO_OVER_PI[first + i]
        if up != ZERO:
            limb = limb << up | TWO_OVER_PI[first + i + 1] >> (WORD_BITS - up)
        low, carry = multiply_add(limb, significand, carry, ZERO)
        w = (w[1], w[2], w[3], w[4], low)  # the first, lowest, of six limbs falls out
    quadrant = quarters + np.int64(w[4] & np.uint64(3))
    if x < 0.0 and quarters == 0:  # sin(-a) = sin(a + pi)
        quadrant += 2
    f = (w[0], w[1], w[2], w[3], ZERO)
    mirrored = f[3] >= SIGN
    if mirrored:  # q + f = (q + 1) - (1 - f)
        f = subtract(_FIXED_ONE, f)
        quadrant += 1
    r = multiply(f, FIXED_HALF_PI)
    odd = quadrant & 1
    # sum (-1)^i r^(2i + first) / (2i + first)!, first = 0 for cos and 1 for sin; r < 0.7854, and the
    # term left out, r^60/60! or so, is below 2^-290. The partial sums are positive: terms decrease.
    square = multiply(r, r)
    total = _FIXED_ZERO
    for i in range(29, -1, -1):
        total = subtract(row(INVERSE_FACTORIALS, 2 * i + 1 - odd), multiply(total, square))
    negative = (quadrant & 2) != 0
    if odd == 0:
        total = multiply(total, r)
        negative = negative != mirrored
    return total, negative


@inlined
def exact_case(x: float, y: float) -> tuple[np.uint64, Integer]:
    """Return n, e if ``x^y = n * 2^e`` with n odd below 2^54, else 0, 0, for x > 0 other than 1 and finite y.

    Only these can be doubles or half-way between two. x = m * 2^k with m odd. While y is not whole, x^y can
    be rational only if x is a square: replace x by its root and y by 2y. Then m^y is an integer for y > 0
    (at most 34 factors fit, as m >= 3) and is not a binary fraction for y < 0, unless m = 1.
    """
    m, k = significand_and_exponent(x)
    while m & ONE == ZERO:
        m >>= ONE
        k += 1
    while np.floor(y) != y:
        root = np.uint64(np.int64(np.sqrt(float(np.int64(m)))))  # exact for a square below 2^53
        if root * root != m or k & 1 != 0:
            return ZERO, 0
        m, k, y = root, k >> 1, 2.0 * y
    if m == ONE:
        # Beyond the range of exponents it is all the same how far.
        return ONE, np.int64(max(min(k * y, 5000.0), -5000.0))
    if y < 0.0 or y > 34.0:
        return ZERO, 0
    n = ONE
    for _ in range(np.int64(y)):
        n, high = multiply_add(n, m, ZERO, ZERO)
        if high != ZERO or n >= ONE << np.uint64(54):
            return ZERO, 0
    return n, k * np.int64(y)
