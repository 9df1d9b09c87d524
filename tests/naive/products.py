"""Matrix products with every sum ascending from +0.0: scalar, and a term of all outputs at a time."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]


def scalar_product(x: F64, w: F64) -> F64:
    """``x [rows, depth] * w [depth, width]`` by Python's own arithmetic."""
    rows, weights = x.tolist(), w.tolist()
    y = np.empty((x.shape[0], w.shape[1]))
    for r, row in enumerate(rows):
        for n in range(w.shape[1]):
            total = 0.0
            for k, value in enumerate(row):
                total = total + value * weights[k][n]
            y[r, n] = total
    return y


def product(x: F64, w: F64) -> F64:
    """The same, one term of all outputs at a time: a product array is rounded, then added."""
    y = np.zeros((x.shape[0], w.shape[1]))
    for k in range(x.shape[1]):
        terms = x[:, k : k + 1] * w[k : k + 1, :]
        y = y + terms
    return y
