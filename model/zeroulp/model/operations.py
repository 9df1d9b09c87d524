"""The operations of the composition on rows ``[rows, features]``, each in the defined order.

Knows no layers and no caches. Every function allocates its result and leaves its inputs alone.
"""

from __future__ import annotations

import numpy as np

from zeroulp.model.context import NoGrad
from zeroulp.model.kernels import elementwise, lookup, rope, shared
from zeroulp.model.kernels.arrays import F64, I64
from zeroulp.model.parameters import Parameter


def embedding(table: Parameter, ids: I64) -> F64:
    """Return the rows of the table ``[V, D]`` for ids ``[rows]``."""
    x = np.empty((ids.size, table.shape[1]))  # [rows, D]
    lookup.lookup(table.matrix.panels, ids, x)
    return x


def linear(context: NoGrad, x: F64, weight: Parameter) -> F64:
    """Return ``x [rows, in] * weight [in, out]``; for the table, times its transpose."""
    matrix = weight.matrix
    y = np.empty((x.shape[0], matrix.width))  # [rows, out]
    shared.linear(context.team.control, x, matrix.panels, matrix.depth, matrix.width, y)
    return y


def rms_norm(context: NoGrad, x: F64, gain: Parameter, epsilon: float) -> F64:
    """Return each row normalised and scaled by the gain ``[D]``."""
    y = np.empty_like(x)
    shared.rms_norm(context.team.control, x, gain.vector, epsilon, y)
    return y


def rotate(x: F64, cosines: F64, sines: F64) -> F64:
    """Return each head of each row turned by its position's angles ``[rows, pairs]``."""
    y = np.empty_like(x)
    rope.rope(x, cosines, sines, y)
    return y


def swiglu(context: NoGrad, gate: F64, up: F64) -> F64:
    """Return ``silu(gate) * up``."""
    y = np.empty_like(gate)
    shared.swiglu(context.team.control, gate, up, y)
    return y


def residual(x: F64, branch: F64) -> F64:
    """Return ``x + branch``."""
    y = np.empty_like(x)
    elementwise.add(x.reshape(-1), branch.reshape(-1), y.reshape(-1))
    return y
