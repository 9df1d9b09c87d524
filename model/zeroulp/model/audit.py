"""Where two computations of the same rows part."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from zeroulp.model.kernels.arrays import F64

_SIGN = 1 << 63


@dataclass(frozen=True, slots=True)
class Difference:
    """The first value that is not the same in every bit.

    ``layer`` is None for rows of H and logits; ``stage`` is ``key``, ``value``, ``final_norm`` or ``logits``.
    """

    layer: int | None
    stage: str
    position: int
    feature: int
    cached: float
    recomputed: float

    @property
    def ulps(self) -> int:
        """How many doubles apart the two are; +0.0 and -0.0 are none apart."""
        return abs(_place(self.cached) - _place(self.recomputed))


def first_difference(
    layer: int | None, stage: str, first: int, cached: F64, recomputed: F64
) -> Difference | None:
    """Compare rows ``[n, features]`` of positions ``first ...``: None if all bits are equal."""
    differing = np.argwhere(cached.view(np.int64) != recomputed.view(np.int64))
    if not differing.size:
        return None
    row, feature = (int(index) for index in differing[0])
    return Difference(
        layer, stage, first + row, feature, float(cached[row, feature]), float(recomputed[row, feature])
    )


def _place(value: float) -> int:
    """Return the double's place on the line of all doubles, both zeros at 0."""
    bits = int(np.float64(value).view(np.uint64))
    return bits if bits < _SIGN else _SIGN - bits
