"""Which storage holds a double exactly, one value at a time."""

from __future__ import annotations

import struct


def bits(value: float) -> int:
    return int.from_bytes(struct.pack(">d", value), "big")


def from_bits(pattern: int) -> float:
    return float(struct.unpack(">d", pattern.to_bytes(8, "big"))[0])


def narrowest(pattern: int) -> str:
    """The name of the narrowest format that some value of widens to exactly these 64 bits."""
    exponent, fraction = (pattern >> 52) & 0x7FF, pattern & (2**52 - 1)
    for name, kept in (("bf16", 7), ("f32", 23)):
        if exponent in (0, 0x7FF):
            # zeros, infinities and NaN; a double's subnormals are below every single's,
            # and a signalling NaN would come back quiet
            signalling = exponent and 0 < fraction < 2**51
            fits = not signalling and fraction & (2 ** (52 - kept) - 1) == 0 and (exponent or not fraction)
        elif exponent - 1023 >= -126:
            fits = exponent - 1023 <= 127 and fraction & (2 ** (52 - kept) - 1) == 0
        else:
            # a subnormal single: fewer bits are left for each power of two below 2**-126
            left = kept - (-126 - (exponent - 1023))
            fits = left >= 0 and fraction & (2 ** (52 - left) - 1) == 0
        if fits:
            return name
    return "f64"
