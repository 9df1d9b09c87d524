"""The rows of one sequence in every layer, behind one block table and one length."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from zeroulp.model.cache.layer_cache import LayerCache
from zeroulp.model.cache.pool import BlockPool, blocks_for
from zeroulp.model.errors import ParametersChanged
from zeroulp.model.kernels.arrays import F64, I64
from zeroulp.model.kernels.cache_rows import BLOCK
from zeroulp.model.tensors.node import Node


class SequenceCache:
    """Keys and values of positions ``0 .. length`` in all layers, bound to the parameters that made them.

    Blocks up to the length may be shared with other caches; the blocks that new rows go to are its own.
    Invariant: ``0 <= length <= capacity == blocks * BLOCK``. Owned by the compute thread.
    """

    def __init__(
        self, pool: BlockPool, backbone: Sequence[Node], layers: int, producers: Sequence[Node] = ()
    ) -> None:
        self.pool = pool
        self.length = 0
        self.table: I64 = np.empty(0, np.int64)
        self.layers = [LayerCache(self, index) for index in range(layers)]
        self._backbone = backbone
        self._bound_to = [(node, node.revision) for node in (*backbone, *producers)]

    @property
    def capacity(self) -> int:
        """Positions that the owned blocks hold."""
        return int(self.table.size) * BLOCK

    @property
    def nbytes(self) -> int:
        """Bytes of the owned blocks."""
        return int(self.table.size) * self.pool.block_bytes

    @property
    def is_current(self) -> bool:
        """Whether no parameter has moved since the cache was opened."""
        return all(node.revision == revision for node, revision in self._bound_to)

    def check_parameters(self) -> None:
        """Raise ``ParametersChanged`` if a parameter has moved since the cache was opened."""
        for node, revision in self._bound_to:
            if node.revision != revision:
                raise ParametersChanged(
                    f"{node.label} is at revision {node.revision}, "
                    f"the session was built at {revision}; open a new session and prefill its tokens",
                    parameter=node.label.removeprefix("parameter "),
                )

    def check_owner(self, backbone: Sequence[Node]) -> None:
        """Raise ``ParametersChanged`` if these are not the nodes that the cache is bound to.

        Equal values in another model are other nodes.
        """
        if backbone is not self._backbone:
            raise ParametersChanged("the cache belongs to another model; its rows are not this one's")

    def missing_blocks(self, count: int) -> int:
        """Return how many more blocks ``count`` further rows need, a copy of a shared one included."""
        return self._missing_at_the_end(count) + (count > 0 and self._ends_in_a_shared_block)

    def _missing_at_the_end(self, count: int) -> int:
        return max(0, blocks_for(self.length + count) - int(self.table.size))

    @property
    def _ends_in_a_shared_block(self) -> bool:
        return self.length % BLOCK > 0 and self.pool.is_shared(int(self.table[self.length // BLOCK]))

    def reserve(self, count: int) -> None:
        """Own blocks for ``count`` rows past the length; raises ``CacheBudget`` and takes none.

        A shared block that the next row would go to is replaced by a copy.
        """
        copied = count > 0 and self._ends_in_a_shared_block
        blocks = self.pool.allocate(self.missing_blocks(count))
        if copied:
            end, own = self.length // BLOCK, blocks.pop()
            shared = int(self.table[end])
            self.pool.copy(shared, own)
            self.pool.release([shared])
            self.table[end] = own
        self.table = np.append(self.table, np.array(blocks, np.int64))

    def share_with(self, other: SequenceCache, count: int) -> None:
        """Let an empty cache hold this one's first ``count`` rows too; no row is copied."""
        if other.table.size or not 0 <= count <= self.length:
            raise RuntimeError(f"{count} of {self.length} rows cannot be shared with this cache")
        other.table = self.table[: blocks_for(count)].copy()
        self.pool.share(other.table.tolist())
        other.length = count

    def truncate(self, length: int) -> None:
        """Forget the rows from ``length`` on, and give back the blocks past it."""
        if not 0 <= length <= self.length:
            raise RuntimeError(f"{self.length} rows cannot be cut to {length}")
        self.length = length
        self.trim()

    def keep_hidden(self, first: int, rows: F64) -> None:
        """Store rows ``[n, D]`` of H at position ``first`` past the committed length, unpublished."""
        if not self.length <= first <= first + len(rows) <= self.capacity:
            raise RuntimeError(f"rows {first}..{first + len(rows)} lie outside the reserved blocks")
        for at, row in enumerate(rows, first):
            self.pool.hidden[self.table[at // BLOCK], at % BLOCK] = row

    def hidden(self, first: int, count: int) -> F64:
        """Return a copy of the rows of H ``[count, D]`` from position ``first``."""
        positions = np.arange(first, first + count)
        rows: F64 = self.pool.hidden[self.table[positions // BLOCK], positions % BLOCK]
        return rows

    def publish(self, count: int) -> None:
        """Make ``count`` prepared rows visible in all layers."""
        if not 0 <= self.length <= self.length + count <= self.capacity:
            raise RuntimeError(f"{count} rows past {self.length} exceed the capacity {self.capacity}")
        self.length += count

    def trim(self, positions: int = 0) -> None:
        """Give back the blocks past the length, or past ``positions`` where that is further."""
        keep = blocks_for(max(self.length, positions))
        self.pool.release(self.table[keep:].tolist())
        self.table = self.table[:keep]

    def release(self) -> None:
        """Give everything back; the sequence is empty afterwards."""
        self.length = 0
        self.trim()
