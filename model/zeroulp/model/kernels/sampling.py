"""The sums behind a draw, in ascending order."""

from __future__ import annotations

from zeroulp.model.kernels.arrays import F64, I64
from zeroulp.model.kernels.elementary import exp
from zeroulp.model.kernels.jit import kernel
from zeroulp.model.kernels.softmax import first_maximum


@kernel
def tempered(z: F64, temperature: float, weights: F64) -> None:
    """Fill ``weights[v] = exp((z[v] - max z) / temperature)``; the largest is exactly 1."""
    maximum = z[first_maximum(z, 0, z.size)]
    for v in range(z.size):
        weights[v] = exp((z[v] - maximum) / temperature)


@kernel
def nucleus(weights: F64, ranked: I64, share: float) -> int:
    """Return how many of the ``ranked`` ids it takes until their weights reach ``share`` of all.

    Weights are summed in the order of ``ranked``.
    """
    total = 0.0
    for id_ in ranked:
        total += weights[id_]
    reached = 0.0
    for index in range(ranked.size):
        reached += weights[ranked[index]]
        if reached >= share * total:
            return index + 1
    return ranked.size


@kernel
def draw_ascending(weights: F64, kept: I64, unit: float) -> int:
    """Return the first of the ``kept`` ids, ascending, whose cumulative weight passes ``unit`` of all."""
    total = 0.0
    for id_ in kept:
        total += weights[id_]
    reached = 0.0
    for id_ in kept:
        reached += weights[id_]
        if reached > unit * total:
            return id_
    return kept[-1]
