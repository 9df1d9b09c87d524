"""Special values and accurate paths of all elementary functions, as one separately linked function.

numba links a kernel's callees into it and optimises them again, at each level of calls and in every kernel.
The fast paths are worth that; this code is large and rare. So it is compiled once, at the first import (and
kept on disk like every kernel), and others call it by its symbol. Importing this module defines the symbol,
which kernels loaded from the disk need too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import llvmlite.binding
import numba
import numpy as np
from numba import types
from numba.core import config

from zeroulp.model.kernels.elementary_bits import inlined
from zeroulp.model.kernels.elementary_exact import (
    EXP,
    LOG,
    LOG1P,
    POWER,
    SIN,
    exact,
    exact_case,
)
from zeroulp.model.kernels.elementary_fast import fast_log
from zeroulp.model.kernels.fixed_point import ZERO, nearest_double
from zeroulp.model.kernels.jit import code_folder

_SYMBOL = "zeroulp_elementary_rare"
_SIGNATURE = types.float64(types.int64, types.float64, types.float64)


def _rare(which: int, x: float, y: float) -> float:
    """Return function ``which`` of x (and y, for POWER) for any arguments."""
    negate = False
    if which == POWER:
        # A negative x has a power for whole y only: that of -x, with the sign for odd y.
        finite = abs(y) < np.inf
        whole = finite and np.floor(y) == y
        odd = whole and np.floor(0.5 * y) != 0.5 * y
        if y != 0.0 and -np.inf < x < 0.0 and finite and not whole:
            return np.nan
        negate = bool(odd and np.copysign(1.0, x) < 0.0)
        if y == 0.0 or x == 1.0:
            x, y = 1.0, 1.0
        elif x == x:
            x = abs(x)
    guess = 0.0
    argument = 1.0 + x if which == LOG1P else x
    if which in (LOG, LOG1P, POWER) and 0.0 < argument < np.inf:
        guess = guessed_log(argument)
    result = special(which, x, y, guess)
    if result != result and is_ordinary(which, x, y):
        result = exact(which, x, y, guess)
    return -result if negate else result


@inlined
def is_ordinary(which: int, x: float, y: float) -> bool:
    """Return whether the function has a finite or infinite value."""
    if which == POWER and y != y:
        return False
    if which in (LOG, POWER):
        return x >= 0.0
    if which == LOG1P:
        return x >= -1.0
    return abs(x) < np.inf or (which == EXP and x == x)


@inlined
def special(which: int, x: float, y: float, guess: float) -> float:
    """Return the value where it is special, as in C99, or a limit; NaN where it is ordinary or none."""
    if which == EXP:
        if abs(x) < 2.0**-60:
            return 1.0
        return np.inf if x >= 800.0 else (0.0 if x <= -800.0 else np.nan)
    if which == LOG:
        return 0.0 if x == 1.0 else (-np.inf if x == 0.0 else (x if x == np.inf else np.nan))
    if which == LOG1P:
        # x - x^2/2 is nearer to x than a quarter of its ulp; -0.0 stays.
        return x if abs(x) < 2.0**-54 or x == np.inf else (-np.inf if x == -1.0 else np.nan)
    if which != POWER:
        # x - x^3/6 is nearer to x than a quarter of its ulp; 1 - x^2/2 to 1 than a quarter of the ulp below.
        return (x if which == SIN else 1.0) if abs(x) < 2.0**-27 else np.nan
    if x != x or y != y:
        return np.nan
    if x == 1.0:
        return 1.0
    product = y * guess
    if x == 0.0 or x == np.inf or abs(y) == np.inf or abs(product) > 800.0:
        return np.inf if (x > 1.0) == (y > 0.0) else 0.0
    if abs(product) < 2.0**-60:
        return 1.0
    n, exponent = exact_case(x, y)
    return nearest_double((ZERO, ZERO, ZERO, ZERO, n), exponent) if n != ZERO else np.nan


@inlined
def guessed_log(x: float) -> float:
    """Return log x within an ulp for a finite x > 0: the fast path, as it is."""
    normal, k = (x, 0.0) if x >= 2.0**-1022 else (x * 2.0**54, -54.0)
    high, low, _ = fast_log(normal, 0.0, k)
    return high + low


def _compiled() -> Any:
    previous = config.CACHE_DIR
    config.CACHE_DIR = str(code_folder())  # as in `jit`
    try:
        return numba.cfunc(_SIGNATURE, cache=True, error_model="numpy")(_rare)
    finally:
        config.CACHE_DIR = previous


_machine_code = _compiled()
llvmlite.binding.add_symbol(_SYMBOL, _machine_code.address)
rare = cast(Callable[[int, float, float], float], types.ExternalFunction(_SYMBOL, _SIGNATURE))
"""``rare(which, x, y)``, for kernels."""
