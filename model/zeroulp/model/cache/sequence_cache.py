"""The rows of one sequence in every layer, behind one block table and one length."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

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
    Invariant: ``0 <= length <= capacity <= blocks * BLOCK``. Owned by the compute thread.
    """

    def __init__(
        self, pool: BlockPool, backbone: Sequence[Node], layers: int, producers: Sequence[Node] = ()
    ) -> None:
        self.pool = pool
        self.length = 0
        self.table: I64 = np.empty(0, np.int64)
        self._copied: int | None = None
        """The shared block whose copy stands at the end, held until a row is published in the copy."""
        self.layers = [LayerCache(self, index) for index in range(layers)]
        self._backbone = backbone
        self._bound_to = [(node, node.revision) for node in (*backbone, *producers)]

    @property
    def capacity(self) -> int:
        """Positions up to which rows can be written: a block that others hold too is only read."""
        return self.length if self._ends_in_a_shared_block else int(self.table.size) * BLOCK

    @property
    def blocks(self) -> list[int]:
        """Every block that it holds."""
        held: list[int] = self.table.tolist()
        return held if self._copied is None else [*held, self._copied]

    @property
    def nbytes(self) -> int:
        """Bytes of the blocks in its table, those included that others hold too."""
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
        copies = count > 0 and self._ends_in_a_shared_block
        return max(0, blocks_for(self.length + count) - int(self.table.size)) + copies

    @property
    def _ends_in_a_shared_block(self) -> bool:
        return self.length % BLOCK > 0 and self.pool.is_shared(int(self.table[self.length // BLOCK]))

    def reserve(self, count: int) -> None:
        """Own blocks for ``count`` rows past the length; raises ``CacheBudget`` and takes none.

        A shared block that the next row would go to is replaced by a copy.
        """
        missing = self.missing_blocks(count)
        if not missing:
            return
        blocks = self.pool.allocate(missing)
        if self._ends_in_a_shared_block:
            end, own = self.length // BLOCK, blocks.pop()
            self._copied = int(self.table[end])
            self.pool.copy(self._copied, own)
            self.table[end] = own
        self.table = np.append(self.table, np.array(blocks, np.int64))

    def share_with(self, other: SequenceCache, count: int) -> None:
        """Let an empty cache hold this one's first ``count`` rows too; no row is copied.

        While a call writes here, only whole blocks can be shared. Raises ``ParametersChanged`` for rows
        that are not those of the present parameters, or of another model.
        """
        self.check_parameters()
        other.check_owner(self._backbone)
        if other.table.size or not 0 <= count <= self.length:
            raise RuntimeError(f"{count} of {self.length} rows cannot be shared with this cache")
        other.table = self.table[: blocks_for(count)].copy()
        self.pool.share(other.table.tolist())
        other.length = count

    def truncate(self, length: int) -> None:
        """Forget the rows from ``length`` on, and give back the blocks past it."""
        if not 0 <= length <= self.length:
            raise RuntimeError(f"{self.length} rows cannot be cut to {length}")
        self._undo_copy()
        self.length = length
        self.trim()

    def keep_hidden(self, first: int, rows: F64) -> None:
        """Store rows ``[n, D]`` of H at position ``first`` past the committed length, unpublished."""
        if not self.length <= first <= first + len(rows) <= self.capacity:
            raise RuntimeError(f"rows {first}..{first + len(rows)} lie outside the reserved blocks")
        for done, part in self._hidden_parts(first, len(rows)):
            part[:] = rows[done : done + len(part)]

    def hidden(self, first: int, count: int) -> F64:
        """Return a copy of the rows of H ``[count, D]`` from position ``first``."""
        rows = np.empty((count, self.pool.hidden.shape[2]))
        for done, part in self._hidden_parts(first, count):
            rows[done : done + len(part)] = part
        return rows

    def _hidden_parts(self, first: int, count: int) -> Iterator[tuple[int, F64]]:
        """Yield views ``[up to BLOCK, D]`` block by block, each with the number of rows before it."""
        done = 0
        while done < count:
            block, at = divmod(first + done, BLOCK)
            part: F64 = self.pool.hidden[self.table[block], at : at + count - done]
            yield done, part
            done += len(part)

    def publish(self, count: int) -> None:
        """Make ``count`` prepared rows visible in all layers."""
        if not 0 <= self.length <= self.length + count <= self.capacity:
            raise RuntimeError(f"{count} rows past {self.length} exceed the capacity {self.capacity}")
        self.length += count
        if count and self._copied is not None:
            self.pool.release([self._copied])
            self._copied = None

    def trim(self, positions: int = 0) -> None:
        """Give back the blocks past the length, or past ``positions`` where that is further.

        When nothing past the length is kept, the shared block comes back for a copy without new rows.
        """
        if positions <= self.length:
            self._undo_copy()
        keep = blocks_for(max(self.length, positions))
        self.pool.release(self.table[keep:].tolist())
        self.table = self.table[:keep]

    def _undo_copy(self) -> None:
        if self._copied is not None:
            end = self.length // BLOCK
            self.pool.release([int(self.table[end])])
            self.table[end], self._copied = self._copied, None

    def release(self) -> None:
        """Give everything back; the sequence is empty afterwards."""
        self.truncate(0)
