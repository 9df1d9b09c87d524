"""Distances in representable numbers, against walking and against Python's own integers."""

from __future__ import annotations

import math
import struct

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from zeroulp.client.trace_files.ulps import bits_of_values, ulps_between

NUMBERS = st.floats(allow_nan=False)


def ulps(a: float, b: float) -> int:
    (distance,) = ulps_between(bits_of_values(np.array([a])), bits_of_values(np.array([b])))
    return int(distance)


def place(value: float) -> int:
    """Where a value stands among all, zero at 0: the bits of its magnitude, with its sign."""
    (magnitude,) = struct.unpack(">q", struct.pack(">d", abs(value)))
    return int(magnitude) if math.copysign(1.0, value) > 0 else -int(magnitude)


@given(NUMBERS, NUMBERS)
def test_the_distance_is_that_of_the_places(a: float, b: float) -> None:
    assert ulps(a, b) == ulps(b, a) == abs(place(a) - place(b))


@given(NUMBERS, st.integers(0, 40), st.sampled_from([-math.inf, math.inf]))
def test_so_many_steps_are_so_many_ulps(start: float, steps: int, towards: float) -> None:
    value, walked = start, 0
    for _ in range(steps):
        after = math.nextafter(value, towards)
        walked += after != value
        value = after
    assert ulps(start, value) == walked


def test_across_zero_and_to_the_ends() -> None:
    tiny = 5e-324
    assert (ulps(0.0, -0.0), ulps(-0.0, tiny), ulps(-tiny, tiny)) == (0, 1, 2)
    assert ulps(1.0, 1.0) == 0
    assert ulps(1.7976931348623157e308, math.inf) == 1
    assert ulps(-math.inf, math.inf) == 2 * 0x7FF0_0000_0000_0000
