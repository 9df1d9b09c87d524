"""The derivative of each operation: the gradient of its result in, one for each of its nodes out.

Sums and products are in `zeroulp.model.gradients`, in their defined order; this is where an operation's
arguments meet them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from zeroulp.model import gradients
from zeroulp.model.attention_gradients import attention
from zeroulp.model.compute_team import ComputeTeam
from zeroulp.model.kernels.arrays import F64, I64
from zeroulp.model.tensors.node import Node
from zeroulp.model.tensors.tensor import Tensor

Mask = NDArray[np.bool_]

Visit = tuple[slice, I64, I64]
"""Rows of one sequence, and the first and last (excluded) of them that each sees."""


def of_embedding(team: ComputeTeam, dy: F64, table: Node, ids: I64) -> Sequence[F64]:
    """Rows of repeated ids are added in ascending order of the rows."""
    return [gradients.embedding_weight(team.control, ids, dy, table.shape[0])]


def of_linear(team: ComputeTeam, dy: F64, x: Tensor, weight: Node) -> Sequence[F64]:
    """``dx = dy * weight^T`` and ``dweight = x^T * dy``."""
    return [
        gradients.linear_input(team.control, dy, weight.matrix),
        gradients.linear_weight(team.control, x.raw, dy),
    ]


def of_tied_logits(team: ComputeTeam, dz: F64, hidden: Tensor, table: Node) -> Sequence[F64]:
    """``dhidden = dz * table`` and ``dtable = dz^T * hidden``."""
    return [
        gradients.linear_input(team.control, dz, table.matrix),
        gradients.linear_weight(team.control, dz, hidden.raw),
    ]


def of_rms_norm(team: ComputeTeam, dy: F64, x: Tensor, gain: Node, epsilon: float) -> Sequence[F64]:
    """See `gradients.rms_norm`."""
    return gradients.rms_norm(team.control, x.raw, gain.vector, epsilon, dy)


def of_rotate(team: ComputeTeam, dy: F64, x: Tensor, cosines: F64, sines: F64) -> Sequence[F64]:
    """Turn back."""
    return [gradients.rotate(team.control, dy, cosines, sines)]


def of_attention(
    team: ComputeTeam,
    dy: F64,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    visits: Sequence[Visit],
    head_width: int,
    scale: float,
) -> Sequence[F64]:
    """See `attention_gradients.attention`; sequences do not see each other."""
    dq, dk, dv = np.empty_like(q.raw), np.empty_like(k.raw), np.empty_like(v.raw)
    for rows, first, last in visits:
        dq[rows], dk[rows], dv[rows] = attention(
            team.control, q.raw[rows], k.raw[rows], v.raw[rows], head_width, first, last, scale, dy[rows]
        )
    return dq, dk, dv


def of_swiglu(team: ComputeTeam, dy: F64, gate: Tensor, up: Tensor) -> Sequence[F64]:
    """See `gradients.swiglu`."""
    return gradients.swiglu(team.control, gate.raw, up.raw, dy)


def of_residual(team: ComputeTeam, dy: F64, x: Tensor, branch: Tensor) -> Sequence[F64]:
    """Pass the gradient on to both."""
    return dy, dy


def of_masked(team: ComputeTeam, dy: F64, x: Tensor, mask: F64) -> Sequence[F64]:
    """Drop what was dropped."""
    return [gradients.dropout(team.control, dy, mask)]


def of_softmax(team: ComputeTeam, dy: F64, x: Tensor, y: F64) -> Sequence[F64]:
    """See `gradients.softmax`."""
    return [gradients.softmax(team.control, y, dy)]


def of_transpose(team: ComputeTeam, dy: F64, x: Tensor) -> Sequence[F64]:
    """Transpose."""
    return [np.ascontiguousarray(dy.T)]


def of_total(team: ComputeTeam, dy: F64, x: Tensor) -> Sequence[F64]:
    """Every value has the gradient of the sum."""
    return [np.full(x.shape, dy.item())]


def of_mean_nll(team: ComputeTeam, dy: F64, logits: Tensor, targets: I64, valid: Mask) -> Sequence[F64]:
    """See `gradients.mean_nll`."""
    return [gradients.mean_nll(team.control, logits.raw, targets, valid, dy.item())]


def of_reshape(team: ComputeTeam, dy: F64, x: Tensor) -> Sequence[F64]:
    """Give the values the shape of x."""
    return [dy.reshape(x.shape)]


def of_rows(team: ComputeTeam, dy: F64, x: Tensor, cells: I64) -> Sequence[F64]:
    """Cells that were not read have a gradient of +0.0."""
    flat = np.zeros((x.shape[0] * x.shape[1], x.shape[2]))
    flat[cells] = dy
    return [flat.reshape(x.shape)]


def of_batch(team: ComputeTeam, dy: F64, x: Tensor, cells: I64) -> Sequence[F64]:
    """Take the cells that the rows went to."""
    return [dy.reshape(-1, x.shape[1])[cells]]
