"""Seeded initialisation: SplitMix64 and Xavier uniform, the same scalars on every machine."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from zeroulp.model.configuration import Configuration
from zeroulp.model.kernels.arrays import F64

_INCREMENT = 0x9E3779B97F4A7C15
_MIXERS = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
_MASK = (1 << 64) - 1


def splitmix64(state: int) -> int:
    """Return SplitMix64's output for a state that has already been advanced."""
    mixed = ((state ^ (state >> 30)) * _MIXERS[0]) & _MASK
    mixed = ((mixed ^ (mixed >> 27)) * _MIXERS[1]) & _MASK
    return mixed ^ (mixed >> 31)


def unit_value(bits: int) -> float:
    """Return the top 53 of 64 bits as a number in [0, 1)."""
    return (bits >> 11) * 2.0**-53


class SplitMix64:
    """The generator as a stream, drawn in arrays (vectorised over draws; the draws are the same)."""

    def __init__(self, seed: int) -> None:
        self._state = seed & _MASK

    def units(self, count: int) -> F64:
        """Draw ``count`` values in [0, 1)."""
        with np.errstate(over="ignore"):
            steps = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(_INCREMENT)
            z = steps + np.uint64(self._state)
            z = (z ^ (z >> np.uint64(30))) * np.uint64(_MIXERS[0])
            z = (z ^ (z >> np.uint64(27))) * np.uint64(_MIXERS[1])
            z ^= z >> np.uint64(31)
        self._state = (self._state + count * _INCREMENT) & _MASK
        return (z >> np.uint64(11)).astype(np.float64) * 2.0**-53


def keyed_bits(seed: int, position: int) -> int:
    """Return 64 bits that depend on nothing but seed and position."""
    keyed = splitmix64((seed + _INCREMENT) & _MASK)
    return splitmix64((keyed + (position + 1) * _INCREMENT) & _MASK)


def keyed_unit(seed: int, position: int) -> float:
    """Return one draw in [0, 1) that depends on nothing but seed and position."""
    return unit_value(keyed_bits(seed, position))


def initialised(configuration: Configuration, seed: int) -> Iterator[tuple[str, F64]]:
    """Yield each parameter's name and values: gains 1, matrices ``sqrt(6/(fan_in+fan_out)) * (2u - 1)``.

    Drawn row-major in the order of ``Configuration.parameter_shapes``.
    """
    stream = SplitMix64(seed)
    for name, shape in configuration.parameter_shapes().items():
        if len(shape) == 1:
            yield name, np.ones(shape)
            continue
        bound = math.sqrt(6.0 / (shape[0] + shape[1]))
        yield name, (bound * (2.0 * stream.units(shape[0] * shape[1]) - 1.0)).reshape(shape)
