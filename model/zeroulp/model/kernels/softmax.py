"""Softmax pieces and the loss over a vocabulary."""

from __future__ import annotations

import numpy as np
from numba.np.numpy_support import carray

from zeroulp.model.kernels.arrays import F64, I64
from zeroulp.model.kernels.elementary import exp_into, log1p
from zeroulp.model.kernels.elementary_bits import BLOCK, stack_buffer
from zeroulp.model.kernels.jit import kernel
from zeroulp.model.kernels.lanes import scale_and_maximum
from zeroulp.model.kernels.vectors import LANES


@kernel
def first_maximum(s: F64, first: int, last: int) -> int:
    """Return the lowest index in ``first..last`` (last excluded) whose value is the largest."""
    best = first
    for j in range(first + 1, last):
        if s[j] > s[best]:
            best = j
    return best


@kernel
def exponentials_below(s: F64, first: int, last: int, maximum: float, e: F64) -> float:
    """Fill ``e[j] = exp(s[j] - maximum)`` for ``first..last``, ``maximum`` the largest; return ``1 + tail``.

    ``tail`` is the ascending sum over all but the first maximum, whose own term is exactly 1.
    """
    best = first
    while s[best] != maximum:
        best += 1
    exp_into(s, first, last, maximum, e)
    tail = 0.0
    for j in range(first, best):
        tail += e[j]
    for j in range(best + 1, last):
        tail += e[j]
    return 1.0 + tail


@kernel
def _scaled_maximum(line: F64, first: int, last: int, scale: float) -> float:
    """Scale ``line[first..last]`` in place and return the largest value, NaN if one is not finite."""
    groups = (last - first) // LANES
    largest = scale_and_maximum(line, first, groups, scale) if groups else -np.inf
    for j in range(first + groups * LANES, last):
        line[j] *= scale
        if line[j] - line[j] != 0.0:
            return np.nan
        if line[j] > largest:
            largest = line[j]
    return largest


@kernel
def softmax_row(s: F64, row: int, span: int, first: int, last: int, scale: float) -> bool:
    """Turn one row's raw scores ``first..last`` into probabilities in place; tell whether all were finite."""
    line = s[row * span : (row + 1) * span]
    largest = _scaled_maximum(line, first, last, scale)
    if largest != largest:
        return False
    total = exponentials_below(line, first, last, largest, line)
    for j in range(first, last):
        line[j] = line[j] / total
    return True


@kernel
def softmax_part(x: F64, rows: int, width: int, y: F64, part: int, parts: int) -> None:
    """Turn one part's rows of flat ``x [rows, width]`` into ``y[j] = exp(x[j] - m) / (1 + tail)``.

    ``m`` and ``tail`` as in ``exponentials_below``. A row that is not finite throughout becomes NaN.
    """
    for row in range(rows * part // parts, rows * (part + 1) // parts):
        y[row * width : (row + 1) * width] = x[row * width : (row + 1) * width]
        if not softmax_row(y, row, width, 0, width, 1.0):
            y[row * width : (row + 1) * width] = np.nan


@kernel
def tail_above(z: F64, best: int) -> float:
    """Return ``sum exp(z[v] - z[best])``, v ascending over all but ``best``."""
    terms = carray(stack_buffer(), BLOCK)
    tail = 0.0
    for start in range(0, z.size, BLOCK):
        count = min(BLOCK, z.size - start)
        exp_into(z[start : start + count], 0, count, z[best], terms)
        for i in range(count):
            if start + i != best:
                tail += terms[i]
    return tail


@kernel
def log_normaliser_part(
    z: F64, rows: int, width: int, best: I64, log_tail: F64, part: int, parts: int
) -> None:
    """Fill the first maximum's index and ``log1p(tail)`` for one part's rows of flat ``z [rows, width]``."""
    for row in range(rows * part // parts, rows * (part + 1) // parts):
        line = z[row * width : (row + 1) * width]
        best[row] = first_maximum(line, 0, width)
        log_tail[row] = log1p(tail_above(line, best[row]))


@kernel
def ascending_sum(values: F64) -> float:
    """Return the sum from index 0 upward, starting at +0.0."""
    total = 0.0
    for i in range(values.size):
        total += values[i]
    return total
