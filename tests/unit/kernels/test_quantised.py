"""Quantised blocks are widened to exactly the values that the format gives them, wherever they are used."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from naive.products import product
from unit.kernels.quantised_blocks import matrix
from zeroulp.model.kernels import shared
from zeroulp.model.kernels.arrays import F64
from zeroulp.model.kernels.linear import CHUNK
from zeroulp.model.kernels.lookup import lookup
from zeroulp.model.kernels.stored import BLOCK_TERMS
from zeroulp.model.kernels.team import new_control
from zeroulp.model.packing import PackedMatrix
from zeroulp.model.quantised import packs

TYPES = ("Q4_1", "Q8_0")


@pytest.mark.parametrize("kind", TYPES)
@settings(max_examples=30)
@given(
    blocks=st.integers(1, 5), width=st.integers(1, 40), rows=st.integers(1, 13), seed=st.integers(0, 2**32)
)
def test_any_shape(kind: str, blocks: int, width: int, rows: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    values, packed = matrix(rng, kind, blocks * BLOCK_TERMS, width)
    assert packed.storage == kind.lower()
    assert packed.unpack().tobytes() == values.tobytes()
    check_product(rng, values, packed, rows)


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("rows", [1, 2, 8, 9, 40])
@pytest.mark.parametrize("depth", [CHUNK - BLOCK_TERMS, CHUNK, CHUNK + BLOCK_TERMS, 1536])
def test_depths_about_a_chunk(rng: np.random.Generator, kind: str, rows: int, depth: int) -> None:
    values, packed = matrix(rng, kind, depth, 11)
    check_product(rng, values, packed, rows)


def check_product(rng: np.random.Generator, values: F64, packed: PackedMatrix, rows: int) -> None:
    x = rng.normal(size=(rows, packed.depth))
    y, packed_rows = np.full((rows, packed.width), np.nan), np.full_like(x, np.nan)
    shared.pack_rows(new_control(), x, packed_rows)
    shared.linear(new_control(), x, packed_rows, [(packed.panels, packed.width)], [y])
    assert y.tobytes() == product(x, values).tobytes()


@pytest.mark.parametrize("kind", TYPES)
def test_lookup(rng: np.random.Generator, kind: str) -> None:
    values, packed = matrix(rng, kind, 64, 21)
    ids = np.array([0, 20, 7, 8, 8])
    x = np.full((5, 64), np.nan)
    lookup(packed.panels, ids, x)
    assert x.tobytes() == np.ascontiguousarray(values.T)[ids].tobytes()


def test_other_types_are_widened_when_they_are_loaded() -> None:
    assert [packs(kind) for kind in ("Q4_1", "Q8_0", "Q4_0", "Q6_K", "F32")] == [
        True,
        True,
        False,
        False,
        False,
    ]
