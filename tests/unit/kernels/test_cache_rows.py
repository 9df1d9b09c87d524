"""Rows come out of a cache's blocks as they went in, and nothing beside them is touched."""

from __future__ import annotations

import numpy as np
import pytest

from zeroulp.model.kernels.cache_rows import BLOCK, layer_blocks, load_rows, store_rows


@pytest.mark.parametrize("heads", [1, 3])
@pytest.mark.parametrize("width", [2, 6, 8, 10])
@pytest.mark.parametrize(("first", "count"), [(0, 1), (BLOCK - 1, 2), (BLOCK, BLOCK), (3, 2 * BLOCK)])
def test_round_trip(rng: np.random.Generator, heads: int, width: int, first: int, count: int) -> None:
    keys, values = layer_blocks(5, heads, width)
    table = np.array([4, 1, 3], np.int64)
    k, v = rng.normal(size=(count, heads * width)), rng.normal(size=(count, heads * width))
    store_rows(k, v, first, table, keys, values)
    got_k, got_v = np.full_like(k, np.nan), np.full_like(v, np.nan)
    load_rows(first, count, table, keys, values, got_k, got_v)
    assert got_k.tobytes() == k.tobytes()
    assert got_v.tobytes() == v.tobytes()
    # what was not stored is still zero, padding included
    assert np.count_nonzero(keys) == np.count_nonzero(values) == k.size
    assert not keys[[0, 2]].any()
    assert not values[..., width:].any()
