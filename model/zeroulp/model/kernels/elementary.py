"""The elementary functions, in one place: every other kernel takes them from here.

Each returns the double nearest to the exact real value, ties to even, for every argument; special values are
those of C99. No value comes from the C library: `elementary_fast` decides nearly all arguments in plain
double arithmetic, `elementary_rare` the rest in 256-bit fixed point.
"""

from __future__ import annotations

import numpy as np
from numba.np.numpy_support import carray

from zeroulp.model.kernels.arrays import F64
from zeroulp.model.kernels.elementary_bits import BLOCK, stack_buffer
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


@kernel
def exp(x: float) -> float:
    """Return e to the power x."""
    if abs(x) <= EXP_LIMIT:
        high, low, error, bits = fast_exp(x)
        below = high + (low - error)
        if below == high + (low + error):
            return scaled_by(below, bits)
    return rare(EXP, x, 0.0)


@kernel
def exp_into(x: F64, first: int, last: int, shift: float, y: F64) -> None:
    """Fill ``y[j] = exp(x[j] - shift)`` for j in ``first..last``; x and y may be the same array.

    In blocks on the stack, which alias nothing: the second loop is vectorised. Lanes that it leaves
    undecided are NaN and then computed one by one.
    """
    differences = carray(stack_buffer(), BLOCK)
    for start in range(first, last, BLOCK):
        count = min(BLOCK, last - start)
        source, target = x[start : start + count], y[start : start + count]
        for i in range(count):
            differences[i] = source[i] - shift
        undecided = 0
        for i in range(count):
            ordinary = abs(differences[i]) <= EXP_LIMIT
            high, low, error, bits = fast_exp(differences[i] if ordinary else 0.0)
            below = high + (low - error)
            decided = ordinary and below == high + (low + error)
            value = scaled_by(below, bits) if decided else np.nan
            undecided += value != value
            target[i] = value
        if undecided != 0:
            for i in range(count):
                if target[i] != target[i]:
                    target[i] = rare(EXP, differences[i], 0.0)


@kernel
def log(x: float) -> float:
    """Return the natural logarithm of x."""
    if 2.0**-1022 <= x < np.inf:
        high, low, error = fast_log(x, 0.0, 0.0)
        below = high + (low - error)
        if below == high + (low + error):
            return below
    return rare(LOG, x, 0.0)


@kernel
def log1p(x: float) -> float:
    """Return the natural logarithm of 1 + x."""
    if -1.0 < x < np.inf and abs(x) >= 2.0**-54:
        high, low, error = fast_log1p(x)
        below = high + (low - error)
        if below == high + (low + error):
            return below
    return rare(LOG1P, x, 0.0)


@kernel
def sin(x: float) -> float:
    """Return the sine of x radians."""
    if 2.0**-27 <= abs(x) <= TURN_LIMIT:
        high, low, error = fast_turn(x, SINE)
        below = high + (low - error)
        if below == high + (low + error):
            return below
    return rare(SIN, x, 0.0)


@kernel
def cos(x: float) -> float:
    """Return the cosine of x radians."""
    if 2.0**-27 <= abs(x) <= TURN_LIMIT:
        high, low, error = fast_turn(x, COSINE)
        below = high + (low - error)
        if below == high + (low + error):
            return below
    return rare(COS, x, 0.0)


@kernel
def power(x: float, y: float) -> float:
    """Return x to the power y."""
    return rare(POWER, x, y)
