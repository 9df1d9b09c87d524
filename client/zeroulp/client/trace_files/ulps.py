"""Distances between f64 values, counted in representable numbers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_MAGNITUDE = np.uint64((1 << 63) - 1)
_ZERO = np.uint64(1 << 63)


def bits_of_values(values: NDArray[np.float64]) -> NDArray[np.uint64]:
    """Return the bits of each value."""
    return np.ascontiguousarray(values).view(np.uint64)


def ulps_between(a: NDArray[np.uint64], b: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return how many steps from one representable number to the next lie between values given as bits.

    Through zero, where -0.0 and +0.0 are one place: 0 ulps apart, though their bits differ. An infinity is
    the step after the largest finite number. A NaN has no place; its distance means nothing.
    """
    left, right = _places(a), _places(b)
    distance: NDArray[np.uint64] = np.maximum(left, right) - np.minimum(left, right)
    return distance


def _places(bits: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return each value's place among all, with zero at 2**63."""
    magnitude = bits & _MAGNITUDE
    return np.where(bits > _MAGNITUDE, _ZERO - magnitude, _ZERO + magnitude)
