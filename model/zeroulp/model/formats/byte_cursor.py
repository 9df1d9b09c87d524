"""A forward-only reader of little-endian fields that never reads past the end."""

from __future__ import annotations

import mmap
import reprlib
import struct
from typing import Final

from zeroulp.model.errors import MalformedFile

LONGEST_TEXT_SHOWN: Final = 100
"""Characters of a file's own text repeated in a message: a hostile name may be megabytes long."""

_texts = reprlib.Repr()
_texts.maxstring = LONGEST_TEXT_SHOWN

_U32 = struct.Struct("<I")
_U64 = struct.Struct("<Q")


def quoted(value: object) -> str:
    """Return ``value`` escaped and bounded, fit for an error message."""
    return _texts.repr(value)


class ByteCursor:
    """A position in a mapped file; every read says what it wants before it takes it.

    Invariant: ``0 <= position <= len(data)``. All methods raise ``MalformedFile`` with the offset,
    what was wanted and what is left, before any memory is allocated for the answer.
    """

    def __init__(self, data: mmap.mmap) -> None:
        self._data = data
        self._size = len(data)
        self.position = 0

    @property
    def remaining(self) -> int:
        """Bytes from the position to the end of the file."""
        return self._size - self.position

    def require(self, count: int, size: int, wanted: str) -> None:
        """Refuse unless ``count`` items of at least ``size`` bytes each can still follow."""
        if count * size > self.remaining:
            items = f"{count} x {size}" if count != 1 else f"{size}"
            raise MalformedFile(
                f"offset {self.position}: {wanted} needs {items} bytes, and {self.remaining} are left"
            )

    def take(self, count: int, wanted: str) -> bytes:
        """Return the next ``count`` bytes."""
        self.require(1, count, wanted)
        start, self.position = self.position, self.position + count
        return self._data[start : self.position]

    def u32(self, wanted: str) -> int:
        """Return the next unsigned 32-bit integer."""
        value: int = _U32.unpack(self.take(4, wanted))[0]
        return value

    def u64(self, wanted: str) -> int:
        """Return the next unsigned 64-bit integer."""
        value: int = _U64.unpack(self.take(8, wanted))[0]
        return value

    def text(self, wanted: str) -> str:
        """Return the next string: a 64-bit length in bytes, then that much UTF-8."""
        length = self.u64(f"the length of {wanted}")
        start = self.position
        try:
            return self.take(length, wanted).decode("utf-8")
        except UnicodeDecodeError as error:
            raise MalformedFile(f"offset {start + error.start}: {wanted} is not valid UTF-8") from error
