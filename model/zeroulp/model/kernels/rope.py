"""Rotary positions: adjacent pairs ``(2p, 2p + 1)`` of each head turn by ``position * freq[p]``."""

from __future__ import annotations

from zeroulp.model.kernels.arrays import F64, I64
from zeroulp.model.kernels.elementary import cos, power, sin
from zeroulp.model.kernels.jit import kernel


@kernel
def rope_frequencies(base: float, head_width: int, frequencies: F64) -> None:
    """Fill ``freq[p] = pow(base, -2p / head_width)`` for the head_width // 2 pairs."""
    for pair in range(head_width // 2):
        frequencies[pair] = power(base, -2.0 * pair / head_width)


@kernel
def rope_turns(positions: I64, frequencies: F64, cosines: F64, sines: F64) -> None:
    """Fill ``[rows, pairs]`` cosines and sines of ``position * freq[pair]``."""
    for row in range(positions.size):
        for pair in range(frequencies.size):
            angle = float(positions[row]) * frequencies[pair]
            cosines[row, pair] = cos(angle)
            sines[row, pair] = sin(angle)


@kernel
def rope_part(
    x: F64, rows: int, width: int, cosines: F64, sines: F64, pairs: int, y: F64, part: int, parts: int
) -> None:
    """Turn each head of one part's rows of x ``[rows, heads * head_width]``, flat, into y.

    ``(l*cos - r*sin, l*sin + r*cos)``; adding +0.0 makes a zero that leaves positive.
    """
    for row in range(rows * part // parts, rows * (part + 1) // parts):
        for start in range(row * width, (row + 1) * width, 2 * pairs):
            for pair in range(pairs):
                left, right = x[start + 2 * pair], x[start + 2 * pair + 1]
                cosine, sine = cosines[row * pairs + pair], sines[row * pairs + pair]
                y[start + 2 * pair] = (left * cosine - right * sine) + 0.0
                y[start + 2 * pair + 1] = (left * sine + right * cosine) + 0.0
