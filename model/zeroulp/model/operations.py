"""The operations of the composition on rows ``[rows, features]``, each in the defined order.

Knows no layers and no caches. Each is written once, against an execution context: without a graph rows are
bare arrays in the context's workspace, under recording they are tensors with a history. Inputs are left
alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from zeroulp.model import derivatives, loss
from zeroulp.model.context import Execution, Rows
from zeroulp.model.errors import MalformedLayout, TokenOutOfRange
from zeroulp.model.kernels import shared
from zeroulp.model.kernels.arrays import F64, I64
from zeroulp.model.kernels.linear import FEW_ROWS
from zeroulp.model.kernels.lookup import first_outside
from zeroulp.model.kernels.softmax import ascending_sum
from zeroulp.model.tensors.node import Node
from zeroulp.model.tensors.tensor import Tensor


def embedding(context: Execution[Rows], table: Node, ids: I64 | Sequence[int]) -> Rows:
    """Return the rows ``[n, D]`` of a table ``[V, D]`` that ids ``[n]`` name; raises ``TokenOutOfRange``."""
    index = np.asarray(ids, np.int64)
    V = table.shape[0]
    if first_outside(index, V) < index.size:
        raise TokenOutOfRange(
            f"ids from {index.min()} to {index.max()} were given; the table has 0 to {V - 1}"
        )
    return context.result(table.rows(index), derivatives.of_embedding, table, index)


def linear(context: Execution[Rows], x: Rows, *weights: Node) -> list[Rows]:
    """Return ``x [rows, in] * weight [in, out]`` for each of up to three weights."""
    results = [context.workspace.rows(x.shape[0], weight.shape[1]) for weight in weights]
    values = context.values(x)
    packed = context.workspace.rows(*values.shape) if len(values) > FEW_ROWS else values
    _products(context, values, packed, weights, results)
    return context.results(results, derivatives.of_linear, x, weights)


def tied_logits(context: Execution[Rows], hidden: Rows, table: Node) -> Rows:
    """Return ``hidden [rows, D]`` times the transpose of the table ``[V, D]``, in memory of its own."""
    z = np.empty((hidden.shape[0], table.shape[0]))
    values = context.values(hidden)
    _products(context, values, np.empty_like(values), [table], [z])
    return context.result(z, derivatives.of_tied_logits, hidden, table)


def _products(
    context: Execution[Any], x: F64, packed: F64, weights: Sequence[Node], results: Sequence[F64]
) -> None:
    control = context.team.control
    matrices = [weight.matrix for weight in weights]
    if packed is not x:  # few rows are read as they are
        shared.pack_rows(control, x, packed)
    shared.linear(control, x, packed, [(matrix.panels, matrix.width) for matrix in matrices], results)


def rms_norm(context: Execution[Rows], x: Rows, gain: Node, epsilon: float) -> Rows:
    """Return each row normalised and scaled by the gain ``[D]``."""
    values = context.values(x)
    y = context.workspace.rows(*values.shape)
    shared.rms_norm(context.team.control, values, gain.vector, epsilon, y)
    return context.result(y, derivatives.of_rms_norm, x, gain, epsilon)


def rotate(context: Execution[Rows], x: Rows, cosines: F64, sines: F64) -> Rows:
    """Return each head of each row turned by its position's angles ``[rows, pairs]``."""
    values = context.values(x)
    y = context.workspace.rows(*values.shape)
    shared.rotate(context.team.control, values, cosines, sines, y)
    return context.result(y, derivatives.of_rotate, x, cosines, sines)


def swiglu(context: Execution[Rows], gate: Rows, up: Rows) -> Rows:
    """Return ``silu(gate) * up``."""
    g, u = context.values(gate), context.values(up)
    y = context.workspace.rows(*g.shape)
    shared.swiglu(context.team.control, g, u, y)
    return context.result(y, derivatives.of_swiglu, gate, up)


def residual(context: Execution[Rows], x: Rows, branch: Rows) -> Rows:
    """Return ``x + branch``."""
    values = context.values(x)
    y = context.workspace.rows(*values.shape)
    shared.add(context.team.control, values, context.values(branch), y)
    return context.result(y, derivatives.of_residual, x, branch)


def masked(context: Execution[Rows], x: Rows, mask: F64) -> Rows:
    """Return ``x * mask`` for factors of x's shape; a dropped value is +0.0."""
    values = context.values(x)
    y = context.workspace.rows(*values.shape)
    shared.multiply(context.team.control, values, mask, y)
    return context.result(y, derivatives.of_masked, x, mask)


def softmax(context: Execution[Rows], x: Rows) -> Rows:
    """Return the softmax of each row."""
    values = context.values(x)
    y = context.workspace.rows(*values.shape)
    shared.softmax(context.team.control, values, y)
    return context.result(y, derivatives.of_softmax, x, y)


def transpose(context: Execution[Rows], x: Rows) -> Rows:
    """Return x ``[rows, features]`` as ``[features, rows]``."""
    return context.result(np.ascontiguousarray(context.values(x).T), derivatives.of_transpose, x)


def total(context: Execution[Rows], x: Rows) -> Rows:
    """Return the sum of all values in row-major order, starting at +0.0, as a value without axes."""
    value = np.array(ascending_sum(context.values(x).reshape(-1)))
    return context.result(value, derivatives.of_total, x)


def mean_nll(context: Execution[Rows], logits: Rows, targets: I64, valid: derivatives.Mask) -> Rows:
    """Return the mean NLL in nats over the ``valid`` rows of ``logits [rows, V]``, as a value without axes.

    ``targets`` has one id a row; what it holds for other rows is not read.
    """
    value = np.array(loss.mean_nll(context.team.control, context.values(logits), targets, valid))
    return context.result(value, derivatives.of_mean_nll, logits, targets, valid)


def to_batch(context: Execution[Rows], x: Rows, batch: int, length: int) -> Tensor:
    """Return rows ``[B * T, features]``, in memory of their own, as a tensor ``[B, T, features]``."""
    values = context.values(x).reshape(batch, length, -1)
    return context.leave(context.result(values, derivatives.of_reshape, x))


def to_rows(context: Execution[Rows], x: Tensor, cells: I64) -> Rows:
    """Return the rows ``[n, features]`` of x ``[B, T, features]`` at the flat, ascending ``cells [n]``."""
    if len(x.shape) != 3:
        raise MalformedLayout(f"{x.label} was given; [B, T, features] is needed")
    entered = context.enter(x)
    flat = context.values(entered).reshape(-1, x.shape[2])
    rows = flat if cells.size == len(flat) else flat[cells]
    return context.result(rows, derivatives.of_rows, entered, cells)


def from_rows(context: Execution[Rows], x: Rows, cells: I64, batch: int, length: int) -> Tensor:
    """Return ``[B, T, features]``: the rows x, in memory of their own, at ``cells``, +0.0 elsewhere."""
    values = context.values(x)
    if cells.size < batch * length:
        flat = np.zeros((batch * length, values.shape[1]))
        flat[cells] = values
        values = flat
    return context.leave(context.result(values.reshape(batch, length, -1), derivatives.of_batch, x, cells))
