"""RMSNorm over rows."""

from __future__ import annotations

from zeroulp.model.kernels.arrays import F64
from zeroulp.model.kernels.elementary import exp, log
from zeroulp.model.kernels.jit import kernel


@kernel
def rms_norm_part(x: F64, rows: int, width: int, gain: F64, epsilon: float, y: F64, part: int, parts: int) -> None:
    """Normalise one part's rows of x ``[rows, width]``, flat, into y.

    ``ms = (sum_d x[d]*x[d]) / D``, d ascending; ``inv = exp(log(ms + epsilon) * -0.5)``;
    ``y[d] = (x[d] * inv) * gain[d]``.
    """
    for row in range(rows * part // parts, rows * (part + 1) // parts):
        start = row * width
        total = 0.0
        for d in range(width):
            total += x[start + d] * x[start + d]
        inverse = exp(log(total / width + epsilon) * -0.5)
        for d in range(width):
            y[start + d] = (x[start + d] * inverse) * gain[d]
