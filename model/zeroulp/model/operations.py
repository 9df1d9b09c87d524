"""The operations of the composition on rows ``[rows, features]``, each in the defined order.

Knows no layers and no caches. Results are in the context's workspace; inputs are left alone.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from zeroulp.model.context import NoGrad
from zeroulp.model.kernels import lookup, shared
from zeroulp.model.kernels.arrays import F64, I64
from zeroulp.model.parameters import Parameter


def embedding(table: Parameter, ids: I64) -> F64:
    """Return the rows of the table ``[V, D]`` for ids ``[rows]``."""
    x = np.empty((ids.size, table.shape[1]))  # [rows, D]
    lookup.lookup(table.matrix.panels, ids, x)
    return x


def linear(context: NoGrad, x: F64, *weights: Parameter) -> list[F64]:
    """Return ``x [rows, in] * weight [in, out]`` for each of up to three weights."""
    results = [context.workspace.rows(len(x), weight.shape[1]) for weight in weights]
    _products(context, x, context.workspace.rows(*x.shape), weights, results)
    return results


def tied_logits(context: NoGrad, hidden: F64, table: Parameter) -> F64:
    """Return ``hidden [rows, D]`` times the transpose of the table ``[V, D]``, in memory of its own."""
    z = np.empty((len(hidden), table.shape[0]))
    _products(context, hidden, np.empty_like(hidden), [table], [z])
    return z


def _products(
    context: NoGrad, x: F64, packed: F64, weights: Sequence[Parameter], results: Sequence[F64]
) -> None:
    control = context.team.control
    shared.pack_rows(control, x, packed)
    shared.linear(control, x, packed, [(w.matrix.panels, w.matrix.width) for w in weights], results)


def rms_norm(context: NoGrad, x: F64, gain: Parameter, epsilon: float) -> F64:
    """Return each row normalised and scaled by the gain ``[D]``."""
    y = context.workspace.rows(*x.shape)
    shared.rms_norm(context.team.control, x, gain.vector, epsilon, y)
    return y


def rotate(context: NoGrad, x: F64, cosines: F64, sines: F64) -> F64:
    """Return each head of each row turned by its position's angles ``[rows, pairs]``."""
    y = context.workspace.rows(*x.shape)
    shared.rotate(context.team.control, x, cosines, sines, y)
    return y


def swiglu(context: NoGrad, gate: F64, up: F64) -> F64:
    """Return ``silu(gate) * up``."""
    y = context.workspace.rows(*gate.shape)
    shared.swiglu(context.team.control, gate, up, y)
    return y


def residual(context: NoGrad, x: F64, branch: F64) -> F64:
    """Return ``x + branch``."""
    y = context.workspace.rows(*x.shape)
    shared.add(context.team.control, x, branch, y)
    return y
