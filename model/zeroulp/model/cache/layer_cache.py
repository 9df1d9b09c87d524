"""One layer's rows of one sequence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from zeroulp.model.kernels.arrays import F64
from zeroulp.model.kernels.cache_rows import load_rows, store_rows

if TYPE_CHECKING:
    from zeroulp.model.cache.sequence_cache import SequenceCache


@dataclass(frozen=True, slots=True)
class Ticket:
    """Rows ``first .. first + count`` that a layer has prepared but nobody can see yet."""

    layer: LayerCache
    committed: int
    """The cache's length when the rows were prepared."""
    first: int
    count: int


class LayerCache:
    """A layer's keys and values, read and written through the sequence's block table."""

    def __init__(self, sequence: SequenceCache, index: int) -> None:
        self.sequence = sequence
        self.index = index

    @property
    def blocks(self) -> tuple[F64, F64]:
        """The pool's keys and values for this layer."""
        return self.sequence.pool.layer(self.index)

    def prepare(self, first: int, keys: F64, values: F64) -> Ticket:
        """Write rows ``[n, kv_width]`` at position ``first`` past the committed length, unpublished."""
        sequence = self.sequence
        if not sequence.length <= first <= first + len(keys) <= sequence.capacity:
            raise RuntimeError(
                f"rows {first}..{first + len(keys)} lie outside the reserved "
                f"{sequence.length}..{sequence.capacity}"
            )
        store_rows(keys, values, first, sequence.table, *self.blocks)
        return Ticket(self, sequence.length, first, len(keys))

    def rows(self, first: int, count: int) -> tuple[F64, F64]:
        """Return copies of stored keys and values ``[count, kv_width]`` from position ``first``."""
        keys_, values_ = self.blocks
        shape = (count, keys_.shape[1] * keys_.shape[3])
        keys, values = np.empty(shape), np.empty(shape)
        load_rows(first, count, self.sequence.table, keys_, values_, keys, values)
        return keys, values
