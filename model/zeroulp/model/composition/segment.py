"""A run of new rows of one sequence: one sequence's share of a step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from zeroulp.model.cache.layer_cache import LayerCache
from zeroulp.model.cache.transaction import Transaction
from zeroulp.model.composition.layout import SequenceLayout
from zeroulp.model.configuration import Configuration
from zeroulp.model.errors import MalformedLayout
from zeroulp.model.kernels.arrays import F64, I64


@dataclass(frozen=True, slots=True, eq=False)
class Segment:
    """The next n rows of an open transaction.

    Row i stands at cache position ``start + i`` and RoPE position ``positions[i]``, and sees the keys
    ``first[i] .. last[i]`` (last excluded), both non-decreasing.
    """

    transaction: Transaction
    start: int
    positions: I64
    first: I64
    last: I64

    @property
    def rows(self) -> int:
        """How many rows it has."""
        return self.positions.size

    def prepare(self, layer: int, keys: F64, values: F64) -> LayerCache:
        """Write the rows' keys and values ``[n, kv_width]`` into a layer's cache, unpublished."""
        cache = self.transaction.cache.layers[layer]
        self.transaction.add(cache.prepare(self.start, keys, values))
        return cache


def segments_of(
    configuration: Configuration, layout: SequenceLayout, transactions: Sequence[Transaction]
) -> list[Segment]:
    """Lay each row of a layout over its transaction; raises ``MalformedLayout`` where it does not fit on."""
    window = configuration.context_window
    segments = []
    for b, transaction in enumerate(transactions):
        start, count = transaction.next_position, int(layout.active[b])
        if start != layout.before:
            raise MalformedLayout(
                f"row {b} continues at cell {layout.before}; its cache ends at cell {start}"
            )
        last = np.arange(start + 1, start + count + 1, dtype=np.int64)  # [n]
        starts = layout.starts[b, :count]
        first = starts.copy() if window is None else np.maximum(starts, last - window)
        segments.append(Segment(transaction, start, layout.positions[b, :count], first, last))
    return segments
