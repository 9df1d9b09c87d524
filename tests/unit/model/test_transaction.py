"""A call commits everything or changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest

from unit.model import models
from unit.model.models import state
from zeroulp.model.cache.layer_cache import Ticket
from zeroulp.model.cache.pool import BlockPool, block_bytes, blocks_for
from zeroulp.model.cache.sequence_cache import SequenceCache
from zeroulp.model.cache.transaction import Transaction
from zeroulp.model.composition.language_model import LanguageModel
from zeroulp.model.errors import CacheBudget
from zeroulp.model.kernels.cache_rows import BLOCK

KV = models.SMALL.kv_width


@pytest.fixture
def model() -> LanguageModel:
    return models.with_gains(models.SMALL, 11)


@pytest.fixture
def pool(model: LanguageModel) -> BlockPool:
    return BlockPool(model.configuration, 6)


def fill(transaction: Transaction, first: int, count: int, value: float = 1.0) -> list[Ticket]:
    rows = np.full((count, KV), value)
    return [layer.prepare(first, rows, rows) for layer in transaction.cache.layers]


def add_all(transaction: Transaction, tickets: list[Ticket]) -> None:
    for ticket in tickets:
        transaction.add(ticket)


def test_blocks_for() -> None:
    assert [blocks_for(n) for n in (0, 1, BLOCK, BLOCK + 1, 2 * BLOCK)] == [0, 1, 1, 2, 2]


def test_bytes_of_a_block_are_those_of_its_memory(model: LanguageModel, pool: BlockPool) -> None:
    memory = sum(array.nbytes for index in range(2) for array in pool.layer(index)) + pool.hidden.nbytes
    assert pool.capacity * block_bytes(model.configuration) == memory
    pool.allocate(4)
    assert pool.used_bytes == memory * 4 // 6


def test_rows_are_seen_after_the_commit_and_not_before(model: LanguageModel, pool: BlockPool) -> None:
    cache = model.new_cache(pool)
    with Transaction(cache, 3) as transaction:
        assert (transaction.start, transaction.next_position) == (0, 0)
        add_all(transaction, fill(transaction, 0, 2, 1.0))
        assert (cache.length, transaction.next_position) == (0, 2)
        add_all(transaction, fill(transaction, 2, 1, 2.0))
        assert (cache.length, transaction.next_position) == (0, 3)
        transaction.commit()
        assert cache.length == 3
    assert cache.length == 3
    keys, values = cache.layers[1].rows(0, 3)
    assert keys.tolist() == values.tolist() == [[1.0] * KV, [1.0] * KV, [2.0] * KV]


@pytest.mark.parametrize("length", [0, 5, BLOCK])
def test_leaving_without_commit_changes_nothing(model: LanguageModel, pool: BlockPool, length: int) -> None:
    cache = model.new_cache(pool)
    if length:
        with Transaction(cache, length) as transaction:
            add_all(transaction, fill(transaction, 0, length))
            transaction.commit()
    before = state(cache)
    transaction = Transaction(cache, 2 * BLOCK)
    with suppress(InterruptedError), transaction:
        add_all(transaction, fill(transaction, length, 2 * BLOCK, 9.0))
        raise InterruptedError
    assert state(cache) == before
    transaction.rollback()
    assert state(cache) == before
    pool.check_integrity([cache.table.tolist()])


def test_a_reservation_that_was_there_before_stays(model: LanguageModel, pool: BlockPool) -> None:
    cache = model.new_cache(pool)
    cache.reserve(2 * BLOCK)
    with Transaction(cache, 3 * BLOCK):
        assert cache.capacity == 3 * BLOCK
    assert (cache.capacity, pool.free) == (2 * BLOCK, 4)
    with Transaction(cache, 1):
        pass
    assert (cache.capacity, pool.free) == (2 * BLOCK, 4)
    cache.trim()
    assert (cache.capacity, pool.free) == (0, 6)


def test_exhaustion_takes_nothing(model: LanguageModel, pool: BlockPool) -> None:
    one, two = model.new_cache(pool), model.new_cache(pool)
    one.reserve(4 * BLOCK)
    two.reserve(1)
    with pytest.raises(CacheBudget) as refused:
        Transaction(two, 2 * BLOCK + 1)
    assert refused.value.metadata == {"needed_blocks": "2", "free_blocks": "1", "capacity_blocks": "6"}
    assert (two.capacity, pool.free) == (BLOCK, 1)
    pool.check_integrity([one.table.tolist(), two.table.tolist()])
    Transaction(two, 2 * BLOCK).rollback()


def other_position(transaction: Transaction, tickets: list[Ticket]) -> list[Ticket]:
    return [replace(tickets[0], first=1), *tickets[1:]]


def other_length(transaction: Transaction, tickets: list[Ticket]) -> list[Ticket]:
    return [*tickets[:-1], replace(tickets[-1], committed=1)]


def missing_layer(transaction: Transaction, tickets: list[Ticket]) -> list[Ticket]:
    return tickets[:1]


def missing_rows(transaction: Transaction, tickets: list[Ticket]) -> list[Ticket]:
    return [tickets[0], replace(tickets[1], count=1)]


def more_rows(transaction: Transaction, tickets: list[Ticket]) -> list[Ticket]:
    return [*tickets, replace(tickets[1], first=2, count=1)]


def one_twice(transaction: Transaction, tickets: list[Ticket]) -> list[Ticket]:
    return [*tickets, tickets[0]]


def other_cache(transaction: Transaction, tickets: list[Ticket]) -> list[Ticket]:
    strange = SequenceCache(transaction.cache.pool, models.seeded(models.SMALL, 1).backbone.nodes, 2)
    strange.reserve(2)
    return [strange.layers[0].prepare(0, np.ones((2, KV)), np.ones((2, KV))), *tickets[1:]]


@pytest.mark.parametrize(
    "spoil", [other_position, other_length, missing_layer, missing_rows, more_rows, one_twice, other_cache]
)
def test_commit_refuses_tickets_that_do_not_fit(
    model: LanguageModel, pool: BlockPool, spoil: Callable[[Transaction, list[Ticket]], list[Ticket]]
) -> None:
    cache = model.new_cache(pool)
    transaction = Transaction(cache, 2)
    add_all(transaction, spoil(transaction, fill(transaction, 0, 2)))
    with pytest.raises(RuntimeError, match=r"layer [01]: "):
        transaction.commit()
    assert cache.length == 0
    transaction.rollback()
    assert cache.capacity == 0


def test_commit_happens_once(model: LanguageModel, pool: BlockPool) -> None:
    cache = model.new_cache(pool)
    transaction = Transaction(cache, 1)
    add_all(transaction, fill(transaction, 0, 1))
    transaction.commit()
    for _ in range(2):
        with pytest.raises(RuntimeError, match="over"):
            transaction.commit()
        transaction.rollback()
        assert cache.length == 1


def test_commit_after_rollback_is_refused(model: LanguageModel, pool: BlockPool) -> None:
    # the reservation outlives the transaction, so another one may have written over its rows
    cache = model.new_cache(pool)
    cache.reserve(BLOCK)
    transaction = Transaction(cache, 1)
    add_all(transaction, fill(transaction, 0, 1))
    transaction.rollback()
    with Transaction(cache, 1) as other:
        fill(other, 0, 1, 5.0)
    with pytest.raises(RuntimeError, match="over"):
        transaction.commit()
    assert cache.length == 0


def test_a_transaction_that_another_overtook_is_refused(model: LanguageModel, pool: BlockPool) -> None:
    cache = model.new_cache(pool)
    late, early = Transaction(cache, 1), Transaction(cache, 1)
    add_all(late, fill(late, 0, 1))
    add_all(early, fill(early, 0, 1))
    early.commit()
    with pytest.raises(RuntimeError, match="another cache or position"):
        late.commit()
    assert cache.length == 1


def test_discarded_rows_are_prepared_again(model: LanguageModel, pool: BlockPool) -> None:
    cache = model.new_cache(pool)
    with Transaction(cache, 4) as transaction:
        add_all(transaction, fill(transaction, 0, 2, 1.0))
        add_all(transaction, fill(transaction, 2, 2, 2.0))
        transaction.discard(2)
        assert transaction.next_position == 2
        # a step that broke after its first layer
        transaction.add(fill(transaction, 2, 1, 3.0)[0])
        transaction.discard(2)
        add_all(transaction, fill(transaction, 2, 2, 4.0))
        transaction.commit()
    assert cache.layers[0].rows(0, 4)[0][:, 0].tolist() == [1.0, 1.0, 4.0, 4.0]


@pytest.mark.parametrize(("first", "count"), [(1, 1), (2, 31), (33, 1), (-1, 1)])
def test_rows_outside_the_reservation_are_not_written(
    model: LanguageModel, pool: BlockPool, first: int, count: int
) -> None:
    cache = model.new_cache(pool)
    with Transaction(cache, 2) as transaction:
        add_all(transaction, fill(transaction, 0, 2))
        transaction.commit()
    before = [array.tobytes() for array in pool.layer(0)]
    with pytest.raises(RuntimeError, match=r"outside the reserved 2\.\.32"):
        cache.layers[0].prepare(first, np.ones((count, KV)), np.ones((count, KV)))
    assert [array.tobytes() for array in pool.layer(0)] == before


def test_publish_beyond_the_capacity_is_refused(model: LanguageModel, pool: BlockPool) -> None:
    cache = model.new_cache(pool)
    cache.reserve(3)
    for count in (BLOCK + 1, -1):
        with pytest.raises(RuntimeError, match="exceed"):
            cache.publish(count)
    assert cache.length == 0


@pytest.mark.parametrize("owned", [[[0, 1]], [[0, 1, 2], [2]], [[0, 1, 5]], []])
def test_integrity_check_finds_lost_and_miscounted_blocks(pool: BlockPool, owned: list[list[int]]) -> None:
    taken = pool.allocate(3)
    assert taken == [0, 1, 2]
    pool.check_integrity([[2], [0, 1]])
    pool.share([1])
    pool.check_integrity([[2, 1], [0, 1]])
    pool.release([1])
    with pytest.raises(RuntimeError, match="lost, or held by another number"):
        pool.check_integrity(owned)
