"""Quantised blocks are widened to exactly the values that the format gives them, wherever they are used."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from naive.products import product
from unit.kernels.quantised_blocks import F32, block, matrix
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


def test_other_types_are_widened_when_they_are_loaded(rng: np.random.Generator) -> None:
    kinds = ("Q4_1", "Q8_0", "Q4_0", "Q6_K", "F32")
    kept = [packs(kind, np.frombuffer(block(rng, "Q4_1"), np.uint8).reshape(1, -1)) for kind in kinds]
    assert kept == [True, True, False, False, False]


@settings(max_examples=300)
@given(bits=st.lists(st.integers(0, 2**16 - 1), min_size=2, max_size=2))
def test_q4_1_blocks_in_which_the_format_rounds_are_widened_too(bits: list[int]) -> None:
    halves = np.array(bits, np.uint16)
    scale, minimum = (float(half) for half in halves.view(np.float16))
    raw = np.frombuffer(halves.tobytes() + bytes(16), np.uint8).reshape(1, -1)
    if packs("Q4_1", raw):
        for q in range(16):
            value = scale * q + minimum
            assert float(F32(F32(scale) * F32(q)) + F32(minimum)) == value == float(F32(value))


@pytest.mark.parametrize(
    ("scale", "minimum", "kept"),
    [
        (0.0, 0.0, True),
        (0.0, -1000.0, True),
        (0.125, 0.0, True),
        (2.0**-24, 2.0**-24, True),
        (0.1, -0.8, True),
        (0.1, -600.0, True),
        (0.001, 20.0, False),
        (2.0**-24, 1.0, False),
        (np.inf, 1.0, False),
        (1.0, np.nan, False),
    ],
)
def test_which_q4_1_blocks_are_kept(scale: float, minimum: float, kept: bool) -> None:
    halves = np.array([scale, minimum], np.float16)
    raw = np.frombuffer(halves.tobytes() + bytes(16), np.uint8).reshape(1, -1)
    good = np.frombuffer(np.array([0.1, -0.8], np.float16).tobytes() + bytes(16), np.uint8).reshape(1, -1)
    assert packs("Q4_1", raw) is kept
    assert packs("Q4_1", np.concatenate([good, raw, good])) is kept
