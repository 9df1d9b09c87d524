"""Fixed-size blocks of key/value rows from one pool with a budget."""

from __future__ import annotations

from collections.abc import Sequence

from zeroulp.model.configuration import Configuration
from zeroulp.model.errors import CacheBudget
from zeroulp.model.kernels.arrays import F64
from zeroulp.model.kernels.cache_rows import BLOCK, layer_blocks
from zeroulp.model.kernels.vectors import LANES


def block_bytes(configuration: Configuration) -> int:
    """Return the bytes of one block over all layers."""
    padded = -(-configuration.head_width // LANES) * LANES
    row = configuration.kv_heads * (configuration.head_width + padded)
    return 8 * BLOCK * row * configuration.layers


def blocks_for(positions: int) -> int:
    """Return how many blocks hold ``positions`` rows."""
    return -(-positions // BLOCK)


class BlockPool:
    """Blocks of all layers' rows; a block is free or owned by one cache. Owned by the compute thread."""

    def __init__(self, configuration: Configuration, capacity: int) -> None:
        self.capacity = capacity
        self.block_bytes = block_bytes(configuration)
        shape = (capacity, configuration.kv_heads, configuration.head_width)
        self._layers = [layer_blocks(*shape) for _ in range(configuration.layers)]
        # Low ids first: memory that was touched before is used again before fresh pages are.
        self._free = list(range(capacity - 1, -1, -1))

    @property
    def free(self) -> int:
        """Blocks that nobody owns."""
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
        return [self._free.pop() for _ in range(count)]

    def release(self, blocks: Sequence[int]) -> None:
        """Give blocks back."""
        self._free.extend(reversed(blocks))

    def check_integrity(self, owned: Sequence[Sequence[int]]) -> None:
        """Raise ``RuntimeError`` unless the free list and ``owned`` are together each block once."""
        seen = sorted([*self._free, *(block for blocks in owned for block in blocks)])
        if seen != list(range(self.capacity)):
            raise RuntimeError("a cache block is lost, or owned twice")
