"""Caches of one pool under any sequence of actions, beside a list of what must be in them."""

from __future__ import annotations

from itertools import chain

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    invariant,
    multiple,
    precondition,
    rule,
)

from unit.model import models
from zeroulp.model.cache.pool import BlockPool, blocks_for
from zeroulp.model.cache.sequence_cache import SequenceCache
from zeroulp.model.cache.transaction import Transaction
from zeroulp.model.errors import CacheBudget
from zeroulp.model.kernels.arrays import F64
from zeroulp.model.kernels.cache_rows import BLOCK

CAPACITY = 6
MODEL = models.seeded(models.SMALL, 1)
D, KV = models.SMALL.model_width, models.SMALL.kv_width


class Sequence:
    """A cache, the numbers of its committed rows, and those of the open transaction."""

    def __init__(self, cache: SequenceCache) -> None:
        self.cache = cache
        self.rows: list[int] = []
        self.call: Transaction | None = None
        self.prepared: list[int] = []
        self.table_before: list[int] = []
        self.has_room = False
        """Room was reserved outside of a call."""


def written(number: int, layer: int) -> F64:
    return np.array([1000.0 * number + 100.0 * layer + feature for feature in range(KV)])


def hidden(numbers: list[int]) -> F64:
    return np.array([[7.0 * number + feature for feature in range(D)] for number in numbers]).reshape(-1, D)


class CacheMachine(RuleBasedStateMachine):
    sequences = Bundle("sequences")

    def __init__(self) -> None:
        super().__init__()
        self.pool = BlockPool(models.SMALL, CAPACITY)
        self.alive: list[Sequence] = []
        self.number = 0

    @rule(target=sequences, count=st.integers(0, BLOCK + 2))
    def open(self, count: int) -> Sequence:
        """With rows where there is room for them, so that there is something to share."""
        sequence = Sequence(MODEL.new_cache(self.pool))
        self.alive.append(sequence)
        if count:
            self.append(sequence, count)
        return sequence

    @rule(sequence=sequences, count=st.one_of(st.integers(1, 5), st.integers(1, 3 * BLOCK)))
    def begin(self, sequence: Sequence, count: int) -> None:
        if sequence.call is not None:
            return
        table, free = sequence.cache.table.tolist(), self.pool.free
        needed = max(0, blocks_for(len(sequence.rows) + count) - len(table)) + self.writes_to_shared(sequence)
        assert sequence.cache.missing_blocks(count) == needed
        assert self.pool.can_allocate(needed) == (needed <= free)
        if needed > free:
            with pytest.raises(CacheBudget):
                Transaction(sequence.cache, count)
            assert sequence.cache.table.tolist() == table
            assert self.pool.free == free
            return
        sequence.call, sequence.prepared = Transaction(sequence.cache, count), []
        sequence.table_before = table
        assert self.pool.free == free - needed

    @rule(sequence=sequences, count=st.integers(1, BLOCK + 1))
    def prepare(self, sequence: Sequence, count: int) -> None:
        call = sequence.call
        if call is None:
            return
        count = min(count, call.count - len(sequence.prepared))
        if not count:
            return
        first = call.next_position
        assert first == len(sequence.rows) + len(sequence.prepared)
        numbers = list(range(self.number, self.number + count))
        self.number += count
        for layer in sequence.cache.layers:
            rows = np.array([written(number, layer.index) for number in numbers])
            call.add(layer.prepare(first, rows, -rows))
        sequence.prepared.extend(numbers)

    @rule(sequence=sequences, keep=st.integers(0, 2 * BLOCK))
    def discard(self, sequence: Sequence, keep: int) -> None:
        """Forget rows from the start of one of the prepared runs."""
        if sequence.call is None or not sequence.prepared:
            return
        starts = [ticket.first for ticket in sequence.call._tickets[0]]
        position = starts[keep % len(starts)]
        sequence.call.discard(position)
        del sequence.prepared[position - len(sequence.rows) :]

    @rule(sequence=sequences)
    def commit(self, sequence: Sequence) -> None:
        call = sequence.call
        if call is None:
            return
        if len(sequence.prepared) < call.count:
            with pytest.raises(RuntimeError, match="rows prepared"):
                call.commit()
            return
        call.keep_hidden(hidden(sequence.prepared))
        call.commit()
        call.rollback()  # changes nothing any more
        sequence.rows.extend(sequence.prepared)
        sequence.call, sequence.prepared = None, []

    @rule(sequence=sequences, count=st.one_of(st.integers(1, 5), st.integers(1, BLOCK + 1)))
    def append(self, sequence: Sequence, count: int) -> None:
        """A whole call at once."""
        if sequence.call is None and sequence.cache.missing_blocks(count) <= self.pool.free:
            self.begin(sequence, count)
            self.prepare(sequence, count)
            self.commit(sequence)

    @rule(sequence=sequences, count=st.integers(1, BLOCK + 1))
    def give_up(self, sequence: Sequence, count: int) -> None:
        """A whole call that fails at its end."""
        if sequence.call is None and sequence.cache.missing_blocks(count) <= self.pool.free:
            free = self.pool.free
            self.begin(sequence, count)
            self.prepare(sequence, count)
            self.rollback(sequence)
            assert self.pool.free == free

    @rule(sequence=sequences)
    def rollback(self, sequence: Sequence) -> None:
        if sequence.call is not None:
            sequence.call.rollback()
            sequence.call, sequence.prepared = None, []
            assert sequence.cache.table.tolist() == sequence.table_before

    @rule(sequence=sequences)
    def trim(self, sequence: Sequence) -> None:
        if sequence.call is None:
            sequence.cache.trim()
            sequence.has_room = False
            assert sequence.cache.table.size == blocks_for(len(sequence.rows))

    @rule(sequence=sequences, count=st.integers(1, 2 * BLOCK))
    def reserve(self, sequence: Sequence, count: int) -> None:
        if sequence.call is None and sequence.cache.missing_blocks(count) <= self.pool.free:
            sequence.cache.reserve(count)
            sequence.has_room = True
            assert sequence.cache.missing_blocks(count) == 0

    @rule(target=sequences, sequence=sequences)
    def fork(self, sequence: Sequence):  # type: ignore[no-untyped-def]
        """All rows, which wait for the turn of a call that may write."""
        if sequence.call is not None or sequence.has_room:
            return multiple()
        return self.sharing(sequence, len(sequence.rows))

    @rule(target=sequences, sequence=sequences, blocks=st.integers(0, 2))
    def begin_alike(self, sequence: Sequence, blocks: int) -> Sequence:
        """Whole blocks, at any time."""
        return self.sharing(sequence, min(blocks, len(sequence.rows) // BLOCK) * BLOCK)

    def sharing(self, sequence: Sequence, count: int) -> Sequence:
        free = self.pool.free
        other = Sequence(MODEL.new_cache(self.pool))
        sequence.cache.share_with(other.cache, count)
        other.rows = sequence.rows[:count]
        self.alive.append(other)
        assert self.pool.free == free
        return other

    @rule(sequence=sequences, back=st.one_of(st.integers(0, 5), st.integers(0, 3 * BLOCK)))
    def truncate(self, sequence: Sequence, back: int) -> None:
        if sequence.call is not None:
            return
        length = max(0, len(sequence.rows) - back)
        sequence.cache.truncate(length)
        del sequence.rows[length:]
        sequence.has_room = False
        assert sequence.cache.table.size == blocks_for(length)

    def writes_to_shared(self, sequence: Sequence) -> bool:
        """Whether the next row's block is another's too; one that was copied counts until it is let go."""
        if len(sequence.rows) % BLOCK == 0:
            return False
        block = sequence.cache.table.tolist()[len(sequence.rows) // BLOCK]
        return [*chain.from_iterable(other.cache.blocks for other in self.alive)].count(block) > 1

    @rule(sequence=consumes(sequences))
    def release(self, sequence: Sequence) -> None:
        if sequence.call is not None:
            sequence.call.rollback()
        sequence.cache.release()
        self.alive.remove(sequence)
        assert (sequence.cache.length, sequence.cache.capacity, sequence.cache.nbytes) == (0, 0, 0)

    @rule(target=sequences, sequence=consumes(sequences))
    def keep_on_after_release(self, sequence: Sequence):  # type: ignore[no-untyped-def]
        """A released cache is an empty one."""
        if sequence.call is None:
            sequence.cache.release()
            sequence.rows, sequence.has_room = [], False
        return multiple(sequence)

    @invariant()
    def every_holder_is_counted(self) -> None:
        held = [sequence.cache.blocks for sequence in self.alive]
        self.pool.check_integrity(held)
        assert len({*chain.from_iterable(held)}) * self.pool.block_bytes == self.pool.used_bytes
        assert self.pool.free == CAPACITY - len({*chain.from_iterable(held)})

    @invariant()
    def committed_rows_are_there(self) -> None:
        for sequence in self.alive:
            cache = sequence.cache
            assert cache.length == len(sequence.rows) <= cache.capacity <= cache.table.size * BLOCK
            assert self.writes_to_shared(sequence) == (cache.capacity < cache.table.size * BLOCK)
            assert cache.hidden(0, cache.length).tobytes() == hidden(sequence.rows).tobytes()
            for layer in cache.layers:
                keys, values = layer.rows(0, cache.length)
                want = np.array([written(n, layer.index) for n in sequence.rows]).reshape(-1, KV)
                assert keys.tobytes() == want.tobytes()
                assert values.tobytes() == (-want).tobytes()

    @precondition(lambda self: not self.alive)
    @invariant()
    def nothing_leaks(self) -> None:
        assert self.pool.free == CAPACITY


CacheMachine.TestCase.settings = settings(max_examples=120, stateful_step_count=40)
TestCaches = CacheMachine.TestCase
