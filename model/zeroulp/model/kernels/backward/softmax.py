"""Gradients of softmax and of the loss over a vocabulary."""

from __future__ import annotations

import numpy as np

from zeroulp.model.kernels.arrays import F64, I64
from zeroulp.model.kernels.jit import kernel
from zeroulp.model.kernels.softmax import softmax_row


@kernel
def softmax_gradient_row(p: F64, dp: F64, first: int, last: int, ds: F64) -> None:
    """Fill ``ds[j] = p[j] * (dp[j] - t)`` with ``t = sum_j p[j]*dp[j]``, j in ``first..last`` ascending.

    ``dp`` and ``ds`` may be the same array. The maximum that the forward subtracts has no part in it.
    """
    t = 0.0
    for j in range(first, last):
        t += p[j] * dp[j]
    for j in range(first, last):
        ds[j] = p[j] * (dp[j] - t)


@kernel
def softmax_gradient_part(p: F64, rows: int, width: int, dp: F64, ds: F64, part: int, parts: int) -> None:
    """Fill one part's rows of ds ``[rows, width]`` from the probabilities p and their gradient, all flat."""
    for row in range(rows * part // parts, rows * (part + 1) // parts):
        softmax_gradient_row(p, dp, row * width, (row + 1) * width, ds)


@kernel
def loss_gradient_part(
    z: F64, rows: int, width: int, targets: I64, valid: I64, share: float, dz: F64, part: int, parts: int
) -> None:
    """Fill one part's rows of ``dz[r, v] = (p[v] - [v == target]) * share``, flat, p the softmax of z's row.

    A row that is not valid is +0.0 throughout, and its logits and target are not looked at.
    """
    for row in range(rows * part // parts, rows * (part + 1) // parts):
        start, stop = row * width, (row + 1) * width
        if valid[row] == 0:
            dz[start:stop] = 0.0
            continue
        dz[start:stop] = z[start:stop]
        if not softmax_row(dz, row, width, 0, width, 1.0):
            dz[start:stop] = np.nan
        dz[start + targets[row]] -= 1.0
        for i in range(start, stop):
            dz[i] *= share
