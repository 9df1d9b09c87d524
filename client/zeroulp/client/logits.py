"""Rows of logits as they came, and which of them a call asks for."""

from __future__ import annotations

import sys
from array import array
from dataclasses import dataclass, field
from enum import Enum

from zeroulp.v1 import decoder_pb2

VALUE_BYTES = 8


class LogitsScope(Enum):
    """Which rows an answer carries."""

    NONE = decoder_pb2.LOGITS_SCOPE_NONE
    LAST = decoder_pb2.LOGITS_SCOPE_LAST
    """The newest position's; for a generated token the row that it was drawn from."""
    ALL = decoder_pb2.LOGITS_SCOPE_ALL
    """Every position of the call; not for a generation, which has one at a time."""


@dataclass(frozen=True, slots=True)
class Logits:
    """``rows`` rows of ``vocabulary_size`` values; row r follows the token at ``first_position`` + r."""

    first_position: int
    rows: int
    vocabulary_size: int
    values: bytes = field(repr=False)
    """rows * vocabulary_size little-endian f64, row-major."""

    def row(self, index: int) -> memoryview:
        """Return the bytes of one row, vocabulary_size * 8 of them; raises IndexError outside the rows."""
        if not 0 <= index < self.rows:
            raise IndexError(f"row {index} of {self.rows}")
        row_bytes = self.vocabulary_size * VALUE_BYTES
        return memoryview(self.values)[index * row_bytes : (index + 1) * row_bytes]

    def floats(self, index: int) -> array[float]:
        """Return one row as (vocabulary_size,) f64 of this machine; raises IndexError outside the rows."""
        values = array("d", self.row(index).tobytes())
        if sys.byteorder == "big":
            values.byteswap()
        return values


def logits_of(message: decoder_pb2.Logits) -> Logits:
    """Return what a message holds."""
    return Logits(message.first_position, message.rows, message.vocabulary_size, message.values)
