"""Matrix products agree with the naive ones in every bit, whatever the shape, the storage and the parts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from naive.products import product, scalar_product
from unit.kernels.panels import STORAGES, packed_as, representable
from zeroulp.model.kernels import shared
from zeroulp.model.kernels.arrays import F64, I64
from zeroulp.model.kernels.linear import CHUNK, FEW_ROWS, TILE_ROWS, linear_part, pack_rows_part
from zeroulp.model.kernels.team import new_control
from zeroulp.model.packing import PackedMatrix


def inputs(rng: np.random.Generator, rows: int, depth: int) -> F64:
    """Values of many magnitudes and both signs, with zeros: a sum in another order has other bits."""
    x = rng.uniform(-1, 1, (rows, depth)) * 2.0 ** rng.integers(-30, 30, (rows, depth))
    x[rng.random((rows, depth)) < 0.05] = -0.0
    return x


def by_call(x: F64, w: PackedMatrix) -> F64:
    y, packed = np.full((len(x), w.width), np.nan), np.full(x.shape, np.nan)
    shared.pack_rows(new_control(), x, packed)
    shared.linear(new_control(), x, packed, [(w.panels, w.width)], [y])
    return y


def by_parts(x: F64, w: PackedMatrix, parts: int, order: list[int]) -> F64:
    y, packed = np.full((len(x), w.width), np.nan), np.full(x.shape, np.nan)
    shared.pack_rows(new_control(), x, packed)
    flat = x.ravel(), packed.ravel(), len(x), w.depth, w.panels, y.ravel(), w.width
    for part in order:
        linear_part(*flat, part, parts)
    return y


@pytest.mark.parametrize("storage", STORAGES)
@settings(max_examples=80)
@given(
    rows=st.integers(1, 40),
    depth=st.one_of(
        st.integers(1, 40), st.sampled_from([CHUNK - 1, CHUNK, CHUNK + 1]), st.integers(700, 2000)
    ),
    width=st.integers(1, 70),
    parts=st.integers(1, 64),
    seed=st.integers(0, 2**32),
)
def test_any_shape_and_any_parts(
    storage: str, rows: int, depth: int, width: int, parts: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    x, w = inputs(rng, rows, depth), representable(rng, (depth, width), storage)
    want = product(x, w).tobytes()
    matrix = packed_as(w, storage)
    assert by_call(x, matrix).tobytes() == want
    assert by_parts(x, matrix, parts, list(rng.permutation(parts))).tobytes() == want


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("rows", [*range(1, FEW_ROWS + 6), 40])
def test_every_count_of_rows(rng: np.random.Generator, storage: str, rows: int) -> None:
    for depth, width in ((1, 1), (2, 8), (5, 9), (3, 31), (17, 33), (CHUNK + 2, 70)):
        x, w = inputs(rng, rows, depth), representable(rng, (depth, width), storage)
        assert by_call(x, packed_as(w, storage)).tobytes() == product(x, w).tobytes(), (depth, width)


def test_naive_product_of_arrays_is_the_scalar_one(rng: np.random.Generator) -> None:
    x, w = inputs(rng, 3, 50), representable(rng, (50, 5), "f64")
    assert product(x, w).tobytes() == scalar_product(x, w).tobytes()


@pytest.mark.parametrize("parts", range(1, 65))
def test_each_part_alone_writes_its_share_only(rng: np.random.Generator, parts: int) -> None:
    rows, depth, width = (2, 3, 61) if parts % 2 else (11, 3, 61)
    x, w = inputs(rng, rows, depth), representable(rng, (depth, width), "f64")
    matrix, want = packed_as(w, "f64"), product(x, w)
    written = np.zeros((rows, width), np.int64)
    for part in range(parts):
        y = by_parts(x, matrix, parts, [part])
        here = ~np.isnan(y)
        assert y[here].tobytes() == want[here].tobytes()
        written += here
    assert (written == 1).all()


def test_memory_around_the_result_is_left_alone(rng: np.random.Generator) -> None:
    for rows in (1, 2, 3, 9, 13):
        x, w = inputs(rng, rows, 6), representable(rng, (6, 13), "f64")
        matrix, memory = packed_as(w, "f64"), np.full(rows * 13 + 32, 7.0)
        packed = np.empty_like(x)
        shared.pack_rows(new_control(), x, packed)
        y = memory[16:-16]
        linear_part(x.ravel(), packed.ravel(), rows, 6, matrix.panels, y, 13, 0, 1)
        assert y.tobytes() == product(x, w).tobytes()
        assert (memory[:16] == 7.0).all()
        assert (memory[-16:] == 7.0).all()


def test_sums_start_at_positive_zero() -> None:
    for rows in (1, 2, 9):
        x, w = np.full((rows, 1), -0.0), np.ones((1, 9))
        assert by_call(x, packed_as(w, "f64")).tobytes() == np.zeros((rows, 9)).tobytes()


def test_products_are_rounded_before_they_are_added() -> None:
    # fused, the second term would keep the low half of its product: 2**-60 instead of 0
    a = 1.0 + 2.0**-30
    for rows in (1, 2, 4, 9):
        x, w = np.tile([[-1.0, a]], (rows, 1)), np.array([[a * a], [a]])
        y = by_call(x, packed_as(w, "f64"))
        assert y.tobytes() == np.zeros((rows, 1)).tobytes()


def test_one_row_has_the_bits_that_it_has_among_others(rng: np.random.Generator) -> None:
    x, w = inputs(rng, 40, 900), representable(rng, (900, 37), "f32")
    matrix = packed_as(w, "f32")
    together = by_call(x, matrix)
    for row in (0, 3, 17, 39):
        assert by_call(x[row : row + 1], matrix).tobytes() == together[row].tobytes()


@pytest.mark.parametrize("parts", [1, 2, 3, 7, 64])
def test_packed_rows(rng: np.random.Generator, parts: int) -> None:
    for rows, depth in ((9, 1), (12, 5), (15, 40), (40, 33)):
        x = inputs(rng, rows, depth)
        want = np.full(rows * depth, np.nan)
        for row in range(rows // TILE_ROWS * TILE_ROWS):
            for k in range(depth):
                tile, r = divmod(row, TILE_ROWS)
                want[(tile * depth + k) * TILE_ROWS + r] = x[row, k]
        packed = np.full(rows * depth, np.nan)
        for part in range(parts):
            pack_rows_part(x.ravel(), rows, depth, packed, part, parts)
        assert packed.tobytes() == want.tobytes()


def test_few_rows_need_no_packing(alone: I64) -> None:
    packed = np.full((FEW_ROWS, 3), np.nan)
    shared.pack_rows(alone, np.ones((FEW_ROWS, 3)), packed)
    assert np.isnan(packed).all()


def test_several_weights_at_once(rng: np.random.Generator) -> None:
    for rows in (1, 9):
        x = inputs(rng, rows, 64)
        weights = [
            packed_as(representable(rng, (64, width), storage), storage)
            for width, storage in ((33, "f64"), (8, "bf16"), (70, "f32"))
        ]
        packed, results = np.empty_like(x), [np.full((rows, w.width), np.nan) for w in weights]
        shared.pack_rows(new_control(), x, packed)
        shared.linear(new_control(), x, packed, [(w.panels, w.width) for w in weights], results)
        for w, y in zip(weights, results, strict=True):
            assert y.tobytes() == product(x, w.unpack()).tobytes()
