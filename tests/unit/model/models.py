"""Seeded models, and every way of getting logits out of them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from zeroulp.model.cache.pool import BlockPool, blocks_for
from zeroulp.model.cache.sequence_cache import SequenceCache
from zeroulp.model.cache.transaction import Transaction
from zeroulp.model.composition.language_model import LanguageModel
from zeroulp.model.composition.text_segment import text_segment
from zeroulp.model.configuration import Configuration
from zeroulp.model.context import NoGrad
from zeroulp.model.initialisation import initialised
from zeroulp.model.kernels.arrays import F64
from zeroulp.model.parameters import ParameterInventory

SMALL = Configuration(
    vocabulary_size=29,
    model_width=12,
    heads=2,
    kv_heads=1,
    feed_forward_width=7,
    layers=2,
    max_positions=128,
    rope_base=10000.0,
    rms_epsilon=1e-6,
)


def seeded(configuration: Configuration, seed: int) -> LanguageModel:
    return LanguageModel(configuration, ParameterInventory(configuration, initialised(configuration, seed)))


def model_of(configuration: Configuration, values: dict[str, F64]) -> LanguageModel:
    return LanguageModel(configuration, ParameterInventory(configuration, values.items()))


def with_gains(configuration: Configuration, seed: int) -> LanguageModel:
    """A seeded model whose gains are not all 1, so that they can be mixed up."""
    rng = np.random.default_rng(seed)
    values = dict(initialised(configuration, seed))
    for name, value in values.items():
        if value.ndim == 1:
            values[name] = rng.uniform(-1.5, 1.5, value.shape)
    return model_of(configuration, values)


def weights_of(model: LanguageModel) -> Callable[[str], list[Any]]:
    """The parameters as lists, for the naive forward."""
    lists = {name: node.values().tolist() for name, node in model.parameters.items()}
    return lists.__getitem__


def pool_for(model: LanguageModel, *lengths: int) -> BlockPool:
    return BlockPool(model.configuration, sum(blocks_for(length) for length in lengths))


def append(model: LanguageModel, context: NoGrad, cache: SequenceCache, *chunks: Sequence[int]) -> F64:
    """One transaction over all chunks, a step a chunk; returns their logits."""
    rows = []
    with Transaction(cache, sum(len(chunk) for chunk in chunks)) as transaction:
        for chunk in chunks:
            segment = text_segment(transaction, np.array(chunk, np.int64))
            rows.append(model.logits(context, model.forward(context, [segment])))
        transaction.commit()
    return np.concatenate(rows)


def prefill(model: LanguageModel, context: NoGrad, ids: Sequence[int]) -> F64:
    return append(model, context, model.new_cache(pool_for(model, len(ids))), ids)


def by_single_tokens(model: LanguageModel, context: NoGrad, ids: Sequence[int]) -> F64:
    cache = model.new_cache(pool_for(model, len(ids)))
    return np.concatenate([append(model, context, cache, [token]) for token in ids])


def by_calls(model: LanguageModel, context: NoGrad, ids: Sequence[int], ends: Iterable[int]) -> F64:
    """A transaction for each run of ids between two of ``ends``."""
    cache, start, rows = model.new_cache(pool_for(model, len(ids))), 0, []
    for end in [*sorted({*ends} - {0, len(ids)}), len(ids)]:
        rows.append(append(model, context, cache, ids[start:end]))
        start = end
    return np.concatenate(rows)


def by_chunks(model: LanguageModel, context: NoGrad, ids: Sequence[int], ends: Iterable[int]) -> F64:
    """One transaction, a step for each run of ids between two of ``ends``."""
    borders = [0, *sorted({*ends} - {0, len(ids)}), len(ids)]
    chunks = [ids[a:b] for a, b in pairwise(borders)]
    return append(model, context, model.new_cache(pool_for(model, len(ids))), *chunks)


def mixed(
    model: LanguageModel, context: NoGrad, sequences: Sequence[Sequence[int]], rng: np.random.Generator
) -> list[F64]:
    """All sequences in ragged steps: random runs of some of them at a time, in one pool, each committed."""
    pool = pool_for(model, *(len(ids) for ids in sequences))
    caches = [model.new_cache(pool) for _ in sequences]
    rows: list[list[F64]] = [[] for _ in sequences]
    while any(cache.length < len(ids) for cache, ids in zip(caches, sequences, strict=True)):
        transactions, segments, owners = [], [], []
        for index in rng.permutation(len(sequences)):
            left = sequences[index][caches[index].length :]
            count = int(rng.integers(0, len(left) + 1))
            if count:
                transaction = Transaction(caches[index], count)
                ids = np.array(left[:count], np.int64)
                transactions.append(transaction)
                segments.append(text_segment(transaction, ids))
                owners.append(index)
        if not segments:
            continue
        z = model.logits(context, model.forward(context, segments))
        start = 0
        for index, segment, transaction in zip(owners, segments, transactions, strict=True):
            rows[index].append(z[start : start + segment.rows])
            start += segment.rows
            transaction.commit()
        pool.check_integrity([cache.blocks for cache in caches])
    return [np.concatenate(some) for some in rows]


def digests(logits: F64) -> list[str]:
    return [hashlib.sha256(row.astype("<f8").tobytes()).hexdigest() for row in logits]


def state(cache: SequenceCache) -> tuple[object, ...]:
    """Everything that a call that fails must leave as it was."""
    rows = [array.tobytes() for layer in cache.layers for array in layer.rows(0, cache.length)]
    return cache.length, cache.table.tolist(), cache.pool.free, rows
