"""Gradients of RMSNorm: of its rows, and of its gain."""

from __future__ import annotations

from zeroulp.model.kernels.arrays import F64
from zeroulp.model.kernels.jit import kernel
from zeroulp.model.kernels.norm import inverse_root


@kernel
def norm_gradient_part(
    x: F64,
    rows: int,
    width: int,
    gain: F64,
    epsilon: float,
    dy: F64,
    inverse: F64,
    dx: F64,
    part: int,
    parts: int,
) -> None:
    """Fill one part's rows of dx ``[rows, width]``, flat, and the forward's ``inverse [rows]``.

    ``n[d] = x[d] * inverse``; ``g[d] = dy[d] * gain[d]``; ``t = (sum_d g[d]*n[d]) / D``, d ascending;
    ``dx[d] = (g[d] - n[d]*t) * inverse``.
    """
    for row in range(rows * part // parts, rows * (part + 1) // parts):
        start, stop = row * width, (row + 1) * width
        squares = 0.0
        for i in range(start, stop):
            squares += x[i] * x[i]
        inv = inverse_root(squares, width, epsilon)
        inverse[row] = inv
        total = 0.0
        for d in range(width):
            total += (dy[start + d] * gain[d]) * (x[start + d] * inv)
        total /= width
        for d in range(width):
            dx[start + d] = ((dy[start + d] * gain[d]) - (x[start + d] * inv) * total) * inv


@kernel
def gain_gradient_part(
    x: F64, rows: int, width: int, inverse: F64, dy: F64, dgain: F64, part: int, parts: int
) -> None:
    """Fill one part's columns of ``dgain[d] = sum_r dy[r, d] * (x[r, d] * inverse[r])``, r ascending."""
    first, last = width * part // parts, width * (part + 1) // parts
    for d in range(first, last):
        dgain[d] = 0.0
    for row in range(rows):
        start = row * width
        for d in range(first, last):
            dgain[d] += dy[start + d] * (x[start + d] * inverse[row])
