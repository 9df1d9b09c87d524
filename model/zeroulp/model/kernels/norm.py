"""RMSNorm over rows."""

from __future__ import annotations

import numpy as np

from zeroulp.model.kernels.arrays import F64
from zeroulp.model.kernels.elementary import exp, log
from zeroulp.model.kernels.jit import kernel


@kernel
def inverse_root(total: float, width: int, epsilon: float) -> float:
    """Return ``exp(log(total / width + epsilon) * -0.5)`` for a row's sum of squares."""
    if not total < np.inf:
        return np.nan  # an infinite sum of squares would make zeros that pass for numbers
    return exp(log(total / width + epsilon) * -0.5)


@kernel
def _finish_row(x: F64, start: int, width: int, total: float, gain: F64, epsilon: float, y: F64) -> None:
    inverse = inverse_root(total, width, epsilon)
    for d in range(width):
        y[start + d] = (x[start + d] * inverse) * gain[d]


@kernel
def rms_norm_part(
    x: F64, rows: int, width: int, gain: F64, epsilon: float, y: F64, part: int, parts: int
) -> None:
    """Normalise one part's rows of x ``[rows, width]``, flat, into y.

    ``ms = (sum_d x[d]*x[d]) / D``, d ascending; ``inv = exp(log(ms + epsilon) * -0.5)``;
    ``y[d] = (x[d] * inv) * gain[d]``.
    """
    row, last = rows * part // parts, rows * (part + 1) // parts
    while row + 4 <= last:
        # four rows at once: each sum has its own order, and they hide each other's latency
        a, b, c, d = row * width, (row + 1) * width, (row + 2) * width, (row + 3) * width
        total_a = total_b = total_c = total_d = 0.0
        for i in range(width):
            total_a += x[a + i] * x[a + i]
            total_b += x[b + i] * x[b + i]
            total_c += x[c + i] * x[c + i]
            total_d += x[d + i] * x[d + i]
        _finish_row(x, a, width, total_a, gain, epsilon, y)
        _finish_row(x, b, width, total_b, gain, epsilon, y)
        _finish_row(x, c, width, total_c, gain, epsilon, y)
        _finish_row(x, d, width, total_d, gain, epsilon, y)
        row += 4
    while row < last:
        total = 0.0
        for i in range(row * width, (row + 1) * width):
            total += x[i] * x[i]
        _finish_row(x, row * width, width, total, gain, epsilon, y)
        row += 1
