"""The mean loss over the valid targets of rows of logits."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from zeroulp.model.kernels import shared
from zeroulp.model.kernels.arrays import F64, I64
from zeroulp.model.kernels.softmax import ascending_sum


def mean_nll(control: I64, z: F64, targets: I64, valid: NDArray[np.bool_]) -> float:
    """Return the mean of ``(m - z[target]) + log1p(tail)`` over the valid rows of logits ``[rows, V]``.

    The sum ascends over the valid rows, of which there is at least one; the others' logits and targets
    are not looked at.
    """
    rows = np.flatnonzero(valid)
    best, log_tail = np.empty(len(z), np.int64), np.empty(len(z))
    shared.log_normalisers(control, z, best, log_tail)
    nll = (z[rows, best[rows]] - z[rows, targets[rows]]) + log_tail[rows]
    return float(ascending_sum(nll) / rows.size)
