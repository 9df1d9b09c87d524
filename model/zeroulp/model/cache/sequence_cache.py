"""The rows of one sequence in every layer, behind one block table and one length."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from zeroulp.model.cache.layer_cache import LayerCache
from zeroulp.model.cache.pool import BlockPool, blocks_for
from zeroulp.model.errors import ParametersChanged
from zeroulp.model.kernels.arrays import I64
from zeroulp.model.kernels.cache_rows import BLOCK
from zeroulp.model.tensors.node import Node


class SequenceCache:
    """Keys and values of positions ``0 .. length`` in all layers, bound to the parameters that made them.

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
        """Return how many more blocks ``count`` further rows need."""
        return max(0, blocks_for(self.length + count) - int(self.table.size))

    def reserve(self, count: int) -> None:
        """Own blocks for ``count`` rows past the length; raises ``CacheBudget`` and takes none."""
        missing = self.missing_blocks(count)
        if missing:
            blocks = self.pool.allocate(missing)
            self.table = np.append(self.table, np.array(blocks, np.int64))

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
