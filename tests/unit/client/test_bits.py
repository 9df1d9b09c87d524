from __future__ import annotations

import struct

import pytest

from zeroulp.client import Logits, bits_of, differing_bits


@pytest.mark.parametrize(
    ("value", "bits"),
    [
        (1.0, "3ff0000000000000"),
        (-0.0, "8000000000000000"),
        (float("inf"), "7ff0000000000000"),
        (5e-324, "0000000000000001"),
    ],
)
def test_the_most_significant_digit_comes_first(value: float, bits: str) -> None:
    assert bits_of(value) == bits


def test_differing_bits_are_counted() -> None:
    left, right = struct.pack("<2d", 0.0, 1.0), struct.pack("<2d", -0.0, 1.0)
    assert differing_bits(left, left) == 0
    assert differing_bits(left, memoryview(right)) == 1
    assert differing_bits(b"\xff\x00", b"\x00\x01") == 9
    with pytest.raises(ValueError, match="2 bytes cannot be compared with 1"):
        differing_bits(b"ab", b"a")


def test_rows_of_logits_are_bytes_and_floats() -> None:
    logits = Logits(5, 2, 3, struct.pack("<6d", *range(6)))
    assert bytes(logits.row(1)) == struct.pack("<3d", 3, 4, 5)
    assert list(logits.floats(0)) == [0.0, 1.0, 2.0]
    for outside in (-1, 2):
        with pytest.raises(IndexError):
            logits.row(outside)
