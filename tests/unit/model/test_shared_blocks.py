"""Caches that hold the same blocks: nothing is copied before somebody writes, and then one block is."""

from __future__ import annotations

import numpy as np
import pytest

from unit.model import models
from unit.model.models import state
from zeroulp.model.cache.pool import BlockPool
from zeroulp.model.cache.sequence_cache import SequenceCache
from zeroulp.model.cache.transaction import Transaction
from zeroulp.model.composition.language_model import LanguageModel
from zeroulp.model.errors import CacheBudget, ParametersChanged
from zeroulp.model.kernels.arrays import F64
from zeroulp.model.kernels.cache_rows import BLOCK

D, KV = models.SMALL.model_width, models.SMALL.kv_width


@pytest.fixture
def model() -> LanguageModel:
    return models.with_gains(models.SMALL, 11)


@pytest.fixture
def pool(model: LanguageModel) -> BlockPool:
    return BlockPool(model.configuration, 4)


def write(cache: SequenceCache, values: list[float]) -> None:
    """Append a row full of each value in all layers, and as its row of H."""
    with Transaction(cache, len(values)) as transaction:
        rows = np.repeat(np.array(values)[:, None], KV, axis=1)
        for layer in cache.layers:
            transaction.add(layer.prepare(transaction.start, rows, -rows))
        transaction.keep_hidden(np.repeat(np.array(values)[:, None], D, axis=1))
        transaction.commit()


def contents(cache: SequenceCache) -> list[float]:
    """What was written, the same in every layer and in H."""
    every: list[F64] = [cache.hidden(0, cache.length)]
    for layer in cache.layers:
        keys, values = layer.rows(0, cache.length)
        every += [keys, -values]
    for rows in every:
        assert (rows == every[0][:, :1]).all()
    return every[0][:, 0].tolist()  # type: ignore[no-any-return]


def alike(model: LanguageModel, cache: SequenceCache, count: int) -> SequenceCache:
    other = model.new_cache(cache.pool)
    cache.share_with(other, count)
    return other


def test_rows_of_h_lie_where_a_row_by_row_look_finds_them(
    model: LanguageModel, rng: np.random.Generator
) -> None:
    pool = BlockPool(model.configuration, 9)
    pool.allocate(2)
    cache, want = model.new_cache(pool), rng.random((7 * BLOCK, D))
    cache.reserve(len(want))
    cache.table = rng.permutation(cache.table)
    first = 0
    for count in (1, 30, 1, 33, 0, 64, 95):
        cache.keep_hidden(first, want[first : first + count])
        first += count
    assert first == 7 * BLOCK
    for position, row in enumerate(want):
        assert pool.hidden[cache.table[position // BLOCK], position % BLOCK].tobytes() == row.tobytes()
    for first, count in ((0, 7 * BLOCK), (31, 2), (32, 32), (5, 70), (3, 0)):
        assert cache.hidden(first, count).tobytes() == want[first : first + count].tobytes()
    with pytest.raises(RuntimeError, match="outside the reserved"):
        cache.keep_hidden(7 * BLOCK, want[:1])


@pytest.mark.parametrize("count", [1, BLOCK - 1, BLOCK, BLOCK + 1])
def test_the_first_to_write_takes_the_copy(model: LanguageModel, pool: BlockPool, count: int) -> None:
    one = model.new_cache(pool)
    first = [float(n) for n in range(count)]
    write(one, first)
    free = pool.free
    two = alike(model, one, count)
    assert (pool.free, two.table.tolist(), two.nbytes) == (free, one.table.tolist(), one.nbytes)
    shared = count % BLOCK > 0
    assert one.missing_blocks(1) == two.missing_blocks(1) == 1  # a new block, or a copy
    write(two, [100.0])
    assert pool.free == free - 1
    assert one.missing_blocks(1) == 1 - shared  # its last block is its own again
    write(one, [200.0])
    assert (contents(one), contents(two)) == ([*first, 200.0], [*first, 100.0])
    pool.check_integrity([one.blocks, two.blocks])
    two.release()
    assert contents(one) == [*first, 200.0]
    one.release()
    assert pool.free == 4


def test_a_call_that_fails_gives_the_shared_block_back(model: LanguageModel, pool: BlockPool) -> None:
    one = model.new_cache(pool)
    write(one, [1.0, 2.0])
    two = alike(model, one, 2)
    before = state(two)
    transaction = Transaction(two, BLOCK)
    assert (two.capacity, pool.free) == (2 * BLOCK, 1)
    pool.check_integrity([one.blocks, two.blocks])
    one.release()  # the copy's original outlives its other holder
    pool.check_integrity([two.blocks])
    transaction.rollback()
    write(two, [3.0])
    assert contents(two) == [1.0, 2.0, 3.0]
    assert before[1] == two.table.tolist()
    assert pool.free == 3


def test_a_reserved_copy_outlives_a_call_that_failed(model: LanguageModel, pool: BlockPool) -> None:
    one = model.new_cache(pool)
    write(one, [1.0])
    two = alike(model, one, 1)
    two.reserve(3)
    with Transaction(two, 2):
        pass
    pool.allocate(pool.free)
    write(two, [2.0, 3.0])  # needs no room, since it had it
    assert (contents(one), contents(two)) == ([1.0], [1.0, 2.0, 3.0])


def test_a_reservation_that_was_not_used_gives_the_copy_up(model: LanguageModel, pool: BlockPool) -> None:
    one = model.new_cache(pool)
    write(one, [1.0])
    two = alike(model, one, 1)
    two.reserve(2 * BLOCK)
    two.trim()
    assert (two.table.tolist(), pool.free) == (one.table.tolist(), 3)
    two.reserve(1)
    two.release()
    assert (pool.free, contents(one)) == (3, [1.0])
    pool.check_integrity([one.blocks])


def test_a_copy_needs_room(model: LanguageModel, pool: BlockPool) -> None:
    one = model.new_cache(pool)
    write(one, [1.0])
    two = alike(model, one, 1)
    taken = pool.allocate(3)
    before = state(two)
    with pytest.raises(CacheBudget) as refused:
        Transaction(two, 1)
    assert refused.value.metadata == {"needed_blocks": "1", "free_blocks": "0", "capacity_blocks": "4"}
    assert state(two) == before
    pool.check_integrity([one.blocks, two.blocks, taken])
    one.release()
    write(two, [2.0])  # nobody else holds it any more
    assert contents(two) == [1.0, 2.0]


def test_nothing_is_written_to_a_block_that_another_holds(model: LanguageModel, pool: BlockPool) -> None:
    one = model.new_cache(pool)
    write(one, [1.0])
    alike(model, one, 1)
    assert one.capacity == 1
    row = np.ones((1, KV))
    with pytest.raises(RuntimeError, match="outside the reserved"):
        one.layers[0].prepare(1, row, row)
    with pytest.raises(RuntimeError, match="outside the reserved"):
        one.keep_hidden(1, np.ones((1, D)))


def test_a_cut_into_a_shared_block_is_copied_when_it_goes_on(model: LanguageModel, pool: BlockPool) -> None:
    one = model.new_cache(pool)
    first = [float(n) for n in range(BLOCK + 3)]
    write(one, first)
    two = alike(model, one, BLOCK)
    one.truncate(BLOCK - 2)
    assert pool.free == 3
    write(one, [7.0, 8.0, 9.0])
    assert contents(one) == [*first[: BLOCK - 2], 7.0, 8.0, 9.0]
    assert contents(two) == first[:BLOCK]
    for length in (-1, one.length + 1):
        with pytest.raises(RuntimeError, match="cannot be cut"):
            one.truncate(length)


def test_what_cannot_be_shared(model: LanguageModel, pool: BlockPool) -> None:
    one = model.new_cache(pool)
    write(one, [1.0, 2.0])
    full = model.new_cache(pool)
    write(full, [3.0])
    with pytest.raises(RuntimeError, match="cannot be shared"):
        one.share_with(full, 1)
    with pytest.raises(RuntimeError, match="3 of 2 rows"):
        alike(model, one, 3)
    stranger = models.with_gains(models.SMALL, 11)
    with pytest.raises(ParametersChanged, match="another model"):
        one.share_with(stranger.new_cache(pool), 1)
    gain = model.parameters["final_norm.gain"]
    gain.set_value(gain.values())
    assert not one.is_current
    with pytest.raises(ParametersChanged, match="final_norm"):
        alike(model, one, 1)
    pool.check_integrity([one.blocks, full.blocks])


def test_a_free_block_is_not_let_go_again(pool: BlockPool) -> None:
    (block,) = pool.allocate(1)
    pool.release([block])
    with pytest.raises(RuntimeError, match="free already"):
        pool.release([block])
    pool.check_integrity([])
