"""Fixed-size blocks of rows from one pool with a budget: keys and values of all layers, and rows of H."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from zeroulp.model.configuration import Configuration
from zeroulp.model.errors import CacheBudget
from zeroulp.model.kernels.arrays import F64
from zeroulp.model.kernels.cache_rows import BLOCK, layer_blocks
from zeroulp.model.kernels.vectors import LANES


def block_bytes(configuration: Configuration) -> int:
    """Return the bytes of one block: keys and values of all layers, and rows of H."""
    padded = -(-configuration.head_width // LANES) * LANES
    row = configuration.kv_heads * (configuration.head_width + padded)
    return 8 * BLOCK * (row * configuration.layers + configuration.model_width)


def blocks_for(positions: int) -> int:
    """Return how many blocks hold ``positions`` rows."""
    return -(-positions // BLOCK)


class BlockPool:
    """Each block is free, or held by as many caches as ``references`` counts.

    Caches that share a block read it only: who wants to write takes a copy. Owned by the compute thread.
    """

    def __init__(self, configuration: Configuration, capacity: int) -> None:
        self.capacity = capacity
        self.block_bytes = block_bytes(configuration)
        shape = (capacity, configuration.kv_heads, configuration.head_width)
        self._layers = [layer_blocks(*shape) for _ in range(configuration.layers)]
        # zeros, not empty: only touched blocks take memory
        self.hidden: F64 = np.zeros((capacity, BLOCK, configuration.model_width))
        """Each position's row of H: the head gives its logits again at any time."""
        self._references = [0] * capacity
        # Low ids first: memory that was touched before is used again before fresh pages are.
        self._free = list(range(capacity - 1, -1, -1))

    @property
    def free(self) -> int:
        """Blocks that nobody holds."""
        return len(self._free)

    @property
    def used_bytes(self) -> int:
        """Bytes of the blocks in use."""
        return (self.capacity - self.free) * self.block_bytes

    def layer(self, index: int) -> tuple[F64, F64]:
        """Return one layer's keys and values, all blocks."""
        return self._layers[index]

    def can_allocate(self, count: int) -> bool:
        """Tell whether ``count`` blocks are free."""
        return count <= self.free

    def allocate(self, count: int) -> list[int]:
        """Take ``count`` blocks; raises ``CacheBudget`` and takes none when fewer are free."""
        if not self.can_allocate(count):
            raise CacheBudget(
                f"the call needs {count} cache blocks of {BLOCK} positions, "
                f"{self.free} of {self.capacity} are free",
                needed_blocks=count,
                free_blocks=self.free,
                capacity_blocks=self.capacity,
            )
        blocks = [self._free.pop() for _ in range(count)]
        self.share(blocks)
        return blocks

    def share(self, blocks: Sequence[int]) -> None:
        """Hold blocks once more."""
        for block in blocks:
            self._references[block] += 1

    def is_shared(self, block: int) -> bool:
        """Tell whether more than one cache holds a block."""
        return self._references[block] > 1

    def release(self, blocks: Sequence[int]) -> None:
        """Let blocks go; those that nobody else holds are free again."""
        for block in reversed(blocks):
            if not self._references[block]:
                raise RuntimeError(f"block {block} is free already")
            self._references[block] -= 1
            if not self._references[block]:
                self._free.append(block)

    def copy(self, source: int, target: int) -> None:
        """Copy a block's rows in all layers."""
        for keys, values in self._layers:
            keys[target], values[target] = keys[source], values[source]
        self.hidden[target] = self.hidden[source]

    def check_integrity(self, held: Sequence[Sequence[int]]) -> None:
        """Raise ``RuntimeError`` unless the counts are those of ``held`` and the free list is the rest."""
        counts = [0] * self.capacity
        for block in (block for blocks in held for block in blocks):
            counts[block] += 1
        free = [block for block in range(self.capacity) if not counts[block]]
        if counts != self._references or free != sorted(self._free):
            raise RuntimeError("a cache block is lost, or held by another number of caches than is counted")
