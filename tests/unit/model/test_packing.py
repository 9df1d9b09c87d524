"""Packing changes no bit, and takes the narrowest storage that is exact."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from naive.packing import bits, from_bits, narrowest
from unit.kernels.panels import STORAGES, packed_as, representable
from zeroulp.model.kernels.arrays import F64
from zeroulp.model.kernels.vectors import CACHE_LINE
from zeroulp.model.packing import PackedMatrix, aligned_zeros, pack

BYTES = {"f64": 8, "f32": 4, "bf16": 2}
# a bf16 number has 7 bits of fraction, a single 23; these patterns end just there, or one bit later
PATTERNS = st.one_of(
    st.integers(0, 2**64 - 1),
    st.integers(0, 2**12 - 1).map(lambda head: head << 52),
    st.builds(
        lambda head, fraction, kept: head << 52 | (fraction & (2**kept - 1)) << (52 - kept),
        st.one_of(st.integers(0, 2**12 - 1), st.integers(1023 - 152, 1023 - 120), st.integers(1147, 1152)),
        st.integers(0, 2**52 - 1),
        st.sampled_from([1, 2, 6, 7, 8, 22, 23, 24, 52]),
    ),
    st.sampled_from([bits(x) for x in (0.0, -0.0, 1.0, -1.5, np.inf, -np.inf, np.nan, 5e-324, 2.0**-149)]),
)


def one(pattern: int) -> PackedMatrix:
    return pack(np.array([[from_bits(pattern)]]))


def quiet(pattern: int) -> bool:
    """Whether passing this number through Python keeps its bits: a signalling NaN may not survive that."""
    return not (pattern >> 52 & 0x7FF == 0x7FF and 0 < pattern & (2**52 - 1) < 2**51)


@settings(max_examples=600)
@given(PATTERNS.filter(quiet))
def test_storage_of_one_value(pattern: int) -> None:
    packed = one(pattern)
    assert packed.storage == narrowest(pattern)
    assert bits(packed.unpack()[0, 0]) == pattern


@pytest.mark.parametrize("sign", [0, 1])
def test_storage_at_the_borders(sign: int) -> None:
    def stored(pattern: int) -> str:
        return one(sign << 63 | pattern).storage

    exponent = 1023 << 52
    assert stored(0) == stored(exponent) == stored(exponent | 1 << 45) == "bf16"
    assert stored(exponent | 1 << 44) == stored(exponent | 1 << 29) == "f32"
    assert stored(exponent | 1 << 28) == stored(exponent | 1) == "f64"
    assert stored(bits(2.0**-133)) == "bf16"  # the least bf16, then the least single, then less
    assert stored(bits(2.0**-134)) == stored(bits(2.0**-149)) == "f32"
    assert stored(bits(2.0**-150)) == stored(bits(5e-324)) == "f64"
    assert stored(bits(3.3895313892515355e38)) == "bf16"  # the largest of each
    assert stored(bits(3.4028234663852886e38)) == "f32"
    assert stored(bits(3.4028235677973366e38)) == stored(bits(2.0**128)) == "f64"
    assert stored(bits(np.inf)) == stored(0x7FF8 << 48) == "bf16"
    assert stored(0x7FF8 << 48 | 1 << 29) == "f32"  # payloads of NaN are kept too
    assert stored(0x7FF8 << 48 | 1) == "f64"


@pytest.mark.parametrize("storage", STORAGES)
def test_one_value_keeps_all_wide(storage: str) -> None:
    values = np.ones((9, 11))
    values[7, 10] = {"f64": 1 + 2.0**-52, "f32": 1 + 2.0**-23, "bf16": 1 + 2.0**-7}[storage]
    assert pack(values).storage == storage
    assert pack(values).nbytes == BYTES[storage] * 9 * 16


@pytest.mark.parametrize("storage", STORAGES)
@settings(max_examples=60)
@given(depth=st.integers(1, 40), width=st.integers(1, 40), seed=st.integers(0, 2**32))
def test_round_trip_of_any_shape(storage: str, depth: int, width: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    values = representable(rng, (depth, width), storage)
    values[rng.random(values.shape) < 0.1] = -0.0
    packed = pack(values)
    assert packed.unpack().tobytes() == values.tobytes()
    assert BYTES[packed.storage] <= BYTES[storage]
    by_hand = packed_as(values, packed.storage)
    assert packed.panels.dtype == by_hand.panels.dtype
    assert packed.panels.tobytes() == by_hand.panels.tobytes()  # padding of +0.0 included
    assert packed_as(values, storage).unpack().tobytes() == values.tobytes()


@pytest.mark.parametrize("order", ["C", "F", "reversed", "slice"])
def test_any_memory_order(order: str) -> None:
    values = np.random.default_rng(1).normal(size=(12, 21))
    given = {
        "C": values,
        "F": np.asfortranarray(values),
        "reversed": np.ascontiguousarray(values[::-1])[::-1],
        "slice": np.repeat(values, 2, axis=1)[:, ::2],
    }[order]
    assert pack(given).panels.tobytes() == packed_as(values, "f64").panels.tobytes()


def test_singles_are_taken_as_they_are() -> None:
    values = np.random.default_rng(2).normal(size=(5, 9)).astype(np.float32)
    packed = pack(values)
    assert packed.storage == "f32"
    assert packed.unpack().tobytes() == values.astype(np.float64).tobytes()
    assert pack(np.full((2, 2), 0.5, np.float32)).storage == "bf16"


def test_values_are_copied() -> None:
    values: F64 = np.full((3, 8), 1 / 3)
    packed = pack(values)
    values[...] = 0.0
    assert (packed.unpack() == 1 / 3).all()


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.uint16])
def test_panels_start_on_a_cache_line(dtype: type) -> None:
    for size in (1, 7, 64, 1000):
        array = aligned_zeros(size, dtype)
        assert array.ctypes.data % CACHE_LINE == 0
        assert array.size == size
        assert not array.any()
