"""Bits of f64 values: how they are written, and how many of them differ."""

from __future__ import annotations

import struct


def bits_of(value: float) -> str:
    """Return the 16 hexadecimal digits of an f64, most significant first: 1.0 is 3ff0000000000000."""
    return struct.pack(">d", value).hex()


def differing_bits(left: bytes | memoryview, right: bytes | memoryview) -> int:
    """Return how many bits differ between two buffers of the same length; raises ValueError otherwise."""
    if len(left) != len(right):
        raise ValueError(f"{len(left)} bytes cannot be compared with {len(right)}")
    return (int.from_bytes(left, "little") ^ int.from_bytes(right, "little")).bit_count()
