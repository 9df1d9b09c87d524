"""Which values a training step drops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from zeroulp.model.initialisation import SplitMix64, keyed_bits
from zeroulp.model.kernels.arrays import F64


class Dropout(Protocol):
    """Where masks come from: a function of the place and the shape, so that a place can be asked again."""

    def mask(self, place: int, shape: tuple[int, ...]) -> F64:
        """Return the factors for the ``place``-th dropped array of a forward: 0, or ``1 / (1 - rate)``."""


class SeededDropout:
    """Drops each value with probability ``rate``, by a seed."""

    def __init__(self, rate: float, seed: int) -> None:
        if not 0.0 <= rate < 1.0:
            raise ValueError(f"a dropout rate of {rate} was given; it must be at least 0 and below 1")
        self._rate = rate
        self._seed = seed

    def mask(self, place: int, shape: tuple[int, ...]) -> F64:
        """Return the factors; a value is dropped where its own uniform draw is below the rate."""
        draws = SplitMix64(keyed_bits(self._seed, place)).units(int(np.empty(shape).size)).reshape(shape)
        return np.where(draws < self._rate, 0.0, 1.0 / (1.0 - self._rate))


class ReplayedDropout:
    """Drops what another forward has dropped."""

    def __init__(self, masks: Sequence[F64]) -> None:
        self._masks = masks

    def mask(self, place: int, shape: tuple[int, ...]) -> F64:
        """Return the recorded mask; raises ``ValueError`` where the forward is another."""
        if place >= len(self._masks) or self._masks[place].shape != shape:
            raise ValueError(
                f"the forward drops an array of shape {list(shape)} at place {place}; "
                f"the {len(self._masks)} recorded masks have none"
            )
        return self._masks[place]


class Masks:
    """The masks of one forward, in the order of their places; none are drawn without a source."""

    def __init__(self, source: Dropout | None = None, place: int = 0) -> None:
        self._source = source
        self._first = place
        self.drawn: list[F64] = []

    def next(self, shape: tuple[int, ...]) -> F64 | None:
        """Return the next place's mask, None when nothing is dropped."""
        if self._source is None:
            return None
        mask = self._source.mask(self._first + len(self.drawn), shape)
        self.drawn.append(mask)
        return mask

    def branch(self) -> Masks:
        """Return the masks that follow, drawn on their own."""
        return Masks(self._source, self._first + len(self.drawn))
