"""What goes back through each operation, on arrays: gradients of inputs and weights from those of outputs.

Arrays are f64, rows ``[rows, features]``; one with gaps raises ``ValueError``. Every sum starts at +0.0 and
ascends; each function states its expression, so that its bits are defined as the forward's are. ``control``
are a team's words: threads change no bit. Knows no graph: which gradients are wanted, and in which order
several of one tensor are added, is the caller's. A residual passes its gradient on to both of its inputs.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from zeroulp.model.kernels import shared
from zeroulp.model.kernels.arrays import F64, I64
from zeroulp.model.kernels.backward import parts
from zeroulp.model.kernels.backward.jobs import require_contiguous, run
from zeroulp.model.kernels.vectors import LANES
from zeroulp.model.packing import PackedMatrix, aligned_zeros

_TRANSPOSE = {
    "f64": parts.transpose_f64,
    "f32": parts.transpose_f32,
    "bf16": parts.transpose_bf16,
    "q4_1": parts.transpose_q4_1,
    "q8_0": parts.transpose_q8_0,
}


def linear_input(control: I64, dy: F64, weight: PackedMatrix) -> F64:
    """Return ``dx[r, k] = sum_n dy[r, n] * w[k, n]`` ``[rows, in]`` for dy ``[rows, out]``.

    For the tied head, ``weight`` is the table's matrix ``[D, V]``.
    """
    return _product(control, dy, _transposed(control, weight), weight.depth)


def linear_weight(control: I64, x: F64, dy: F64) -> F64:
    """Return ``dw[k, n] = sum_r x[r, k] * dy[r, n]`` ``[in, out]`` for x ``[rows, in]``, dy ``[rows, out]``.

    For the tied head, whose table is ``[V, D]``: ``linear_weight(control, dz, hidden)``.
    """
    rows, depth = x.shape
    width = dy.shape[1]
    turned = np.empty((depth, rows))  # [in, rows]
    run(control, parts.transpose, x.size, -(-depth // LANES), rows, depth, x, turned)
    panels: F64 = aligned_zeros(-(-width // LANES) * rows * LANES, np.float64)
    run(control, parts.pack, dy.size, -(-width // LANES), rows, width, dy, panels)
    return _product(control, turned, panels, width)


def _product(control: I64, x: F64, panels: F64, width: int) -> F64:
    """Return x ``[rows, depth]`` times panels of ``width`` outputs, by the kernel of every product."""
    require_contiguous(x)
    packed, y = np.empty_like(x), np.empty((len(x), width))
    shared.pack_rows(control, x, packed)
    shared.linear(control, x, packed, [(panels, width)], [y])
    return y


def _transposed(control: I64, weight: PackedMatrix) -> F64:
    """Return the panels of the weights' transpose ``[width, depth]``."""
    depth, width = weight.depth, weight.width
    turned: F64 = aligned_zeros(-(-depth // LANES) * width * LANES, np.float64)
    part, panels = _TRANSPOSE[weight.storage], -(-width // LANES)
    run(control, part, depth * width, panels, depth, width, weight.panels.size, weight.panels, turned)
    return turned


def embedding_weight(control: I64, ids: I64, dx: F64, vocabulary_size: int) -> F64:
    """Return ``dE[v, d] = sum_r dx[r, d]`` over the rows r with ``ids[r] == v``, ascending, ``[V, D]``."""
    rows, width = dx.shape
    table = np.zeros((vocabulary_size, width))
    run(control, parts.lookup, dx.size, -(-width // LANES), rows, width, vocabulary_size, ids, dx, table)
    return table


def rms_norm(control: I64, x: F64, gain: F64, epsilon: float, dy: F64) -> tuple[F64, F64]:
    """Return dx ``[rows, D]`` and dgain ``[D]``, ``inv`` being the forward's.

    ``n[d] = x[d] * inv``; ``g[d] = dy[d] * gain[d]``; ``t = (sum_d g[d]*n[d]) / D``;
    ``dx[d] = (g[d] - n[d]*t) * inv``; ``dgain[d] = sum_r dy[r, d] * n[r, d]``.
    """
    rows, width = x.shape
    inverse, dx, dgain = np.empty(rows), np.empty_like(x), np.empty(width)
    run(control, parts.rms_norm, x.size, rows, rows, width, x, gain, epsilon, dy, inverse, dx)
    run(control, parts.gain, x.size, -(-width // LANES), rows, width, x, inverse, dy, dgain)
    return dx, dgain


def rotate(control: I64, dy: F64, cosines: F64, sines: F64) -> F64:
    """Return each head of dy ``[rows, heads * width]`` turned back by the row's angles ``[rows, pairs]``.

    ``(l*cos - r*(-sin), l*(-sin) + r*cos)``: the forward with the sines negated. A zero is +0.0.
    """
    require_contiguous(dy, cosines, sines)
    dx = np.empty_like(dy)
    shared.rotate(control, dy, cosines, -sines, dx)
    return dx


def swiglu(control: I64, gate: F64, up: F64, dy: F64) -> tuple[F64, F64]:
    """Return dgate and dup, arrays of one shape with gate, up and dy.

    ``s = sigmoid(g)``; ``c = sigmoid(-g)``; ``dup = dy * (g * s)``; ``dgate = (dy * u) * (s * (1 + g * c))``.
    """
    dgate, dup = np.empty_like(gate), np.empty_like(gate)
    run(control, parts.swiglu, 8 * gate.size, gate.size, gate.size, gate, up, dy, dgate, dup)
    return dgate, dup


def dropout(control: I64, dy: F64, mask: F64) -> F64:
    """Return ``dy * mask``, +0.0 where the mask is zero: the mask holds 0 and ``1 / (1 - rate)``."""
    require_contiguous(dy, mask)
    dx = np.empty_like(dy)
    shared.multiply(control, dy, mask, dx)
    return dx


def softmax(control: I64, p: F64, dp: F64) -> F64:
    """Return ``ds[j] = p[j] * (dp[j] - t)`` ``[rows, n]``, ``t = sum_j p[j]*dp[j]`` of each row.

    ``p`` are the forward's probabilities.
    """
    rows, width = p.shape
    ds = np.empty_like(p)
    run(control, parts.softmax, p.size, rows, rows, width, p, dp, ds)
    return ds


def mean_nll(control: I64, z: F64, targets: I64, valid: NDArray[np.bool_], dloss: float) -> F64:
    """Return ``dz[r, v] = (p[v] - [v == targets[r]]) * (dloss / count)`` ``[rows, V]``.

    ``p`` is the softmax of row r of z, and ``count`` the number of valid rows, at least 1. The other rows
    are +0.0; their logits and targets are not looked at.
    """
    rows, width = z.shape
    dz, share = np.empty_like(z), float(dloss) / np.count_nonzero(valid)
    run(control, parts.loss, 8 * z.size, rows, rows, width, z, targets, valid.astype(np.int64), share, dz)
    return dz


def add_into(control: I64, total: F64, more: F64) -> None:
    """Add ``more`` to ``total``, entry by entry, in place."""
    require_contiguous(total, more)
    shared.add(control, total, more, total)
