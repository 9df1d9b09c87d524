"""Kernels in which every output depends on the inputs at its own place."""

from __future__ import annotations

from numba.np.numpy_support import carray

from zeroulp.model.kernels.arrays import F64, I64
from zeroulp.model.kernels.elementary import exp_into
from zeroulp.model.kernels.elementary_bits import BLOCK, inlined, stack_buffer
from zeroulp.model.kernels.jit import kernel


@inlined
def sigmoid(g: float, e: float) -> float:
    """Return ``1 / (1 + exp(-g))`` for g >= 0, else ``exp(g) / (1 + exp(g))``; ``e`` is ``exp(-|g|)``."""
    return (1.0 if g >= 0.0 else e) / (1.0 + e)


@kernel
def swiglu_part(gate: F64, up: F64, y: F64, part: int, parts: int) -> None:
    """Compute one part's share of ``y = (gate * sigmoid(gate)) * up`` for flat arrays of one size."""
    last = gate.size * (part + 1) // parts
    e = carray(stack_buffer(), BLOCK)
    for start in range(gate.size * part // parts, last, BLOCK):
        count = min(BLOCK, last - start)
        for i in range(count):
            e[i] = -abs(gate[start + i])
        exp_into(e, 0, count, 0.0, e)
        for i in range(count):
            g = gate[start + i]
            y[start + i] = (g * sigmoid(g, e[i])) * up[start + i]


@kernel
def add_part(x: F64, branch: F64, y: F64, part: int, parts: int) -> None:
    """Compute one part's share of ``y = x + branch`` for flat arrays of one size."""
    for i in range(x.size * part // parts, x.size * (part + 1) // parts):
        y[i] = x[i] + branch[i]


@kernel
def multiply_part(x: F64, mask: F64, y: F64, part: int, parts: int) -> None:
    """Compute one part's share of ``y = x * mask`` for flat arrays of one size.

    Where the mask is zero the entry is dropped, not multiplied: y is +0.0 there, whatever x holds.
    """
    for i in range(x.size * part // parts, x.size * (part + 1) // parts):
        y[i] = x[i] * mask[i] if mask[i] != 0.0 else 0.0


@kernel
def first_non_finite_row(x: F64) -> int:
    """Return the first row of x ``[rows, width]`` that holds a NaN or an infinity, or the number of rows."""
    rows, width = x.shape
    for row in range(rows):
        # x - x is +0.0 for finite values and NaN otherwise; a NaN stays in the running total.
        odd = 0
        for i in range(width):
            odd |= x[row, i] - x[row, i] != 0.0
        if odd:
            return row
    return rows


@kernel
def all_set(flags: I64) -> bool:
    """Tell whether no flag is 0."""
    zeros = 0
    for i in range(flags.size):
        zeros += flags[i] == 0
    return zeros == 0
