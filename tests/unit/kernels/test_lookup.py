"""Rows come out of the table's panels as they went in."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unit.kernels.panels import STORAGES, packed_as, representable
from zeroulp.model.kernels.lookup import lookup


@pytest.mark.parametrize("storage", STORAGES)
@settings(max_examples=40)
@given(vocabulary=st.integers(1, 60), width=st.integers(1, 40), seed=st.integers(0, 2**32))
def test_any_table(storage: str, vocabulary: int, width: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    table = representable(rng, (vocabulary, width), storage)
    table[rng.random(table.shape) < 0.2] = 0.0
    ids = np.append(rng.integers(0, vocabulary, 9), [0, vocabulary - 1])
    x = np.full((ids.size, width), np.nan)
    lookup(packed_as(np.ascontiguousarray(table.T), storage).panels, ids, x)
    assert x.tobytes() == np.array([table[i] for i in ids]).tobytes()


@pytest.mark.parametrize("storage", STORAGES)
def test_numbers_at_the_edges_are_kept(storage: str) -> None:
    table = np.array([[np.inf, -np.inf, 2.0**-126, 2.0**-133, -(2.0**127)]])
    x = np.empty_like(table)
    lookup(packed_as(np.ascontiguousarray(table.T), storage).panels, np.zeros(1, np.int64), x)
    assert x.tobytes() == table.tobytes()
