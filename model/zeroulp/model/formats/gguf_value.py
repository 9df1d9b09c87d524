"""The metadata of a GGUF file: typed values, arrays of them, and the table of keys."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from gguf.constants import GGUFValueType

from zeroulp.model.errors import MalformedFile
from zeroulp.model.formats.byte_cursor import ByteCursor, quoted

DEEPEST_ARRAY: Final = 4
"""Arrays inside arrays that are followed; the format sets no limit, and the stack has one."""

_NUMBERS: Final[dict[GGUFValueType, np.dtype[Any]]] = {
    GGUFValueType.UINT8: np.dtype("<u1"),
    GGUFValueType.INT8: np.dtype("<i1"),
    GGUFValueType.UINT16: np.dtype("<u2"),
    GGUFValueType.INT16: np.dtype("<i2"),
    GGUFValueType.UINT32: np.dtype("<u4"),
    GGUFValueType.INT32: np.dtype("<i4"),
    GGUFValueType.FLOAT32: np.dtype("<f4"),
    GGUFValueType.BOOL: np.dtype("<u1"),
    GGUFValueType.UINT64: np.dtype("<u8"),
    GGUFValueType.INT64: np.dtype("<i8"),
    GGUFValueType.FLOAT64: np.dtype("<f8"),
}

# The fewest bytes a value takes: an empty string is its length, an empty array its type and length.
_LEAST_STRING: Final = 8
_LEAST_ARRAY: Final = 12
# A key's length, its type and a one-byte value.
_LEAST_ENTRY: Final = 13


def read_metadata(cursor: ByteCursor, count: int) -> dict[str, object]:
    """Read ``count`` keys with their values: ints, floats, bools, strings and lists of these.

    Raises ``MalformedFile``: truncation, an unknown type, a key that occurs twice, text that is not
    UTF-8, a bool that is neither 0 nor 1, arrays nested deeper than ``DEEPEST_ARRAY``.
    """
    cursor.require(count, _LEAST_ENTRY, "the metadata")
    metadata: dict[str, object] = {}
    for _ in range(count):
        start = cursor.position
        key = cursor.text("a metadata key")
        if key in metadata:
            raise MalformedFile(f"offset {start}: the metadata key {quoted(key)} occurs twice")
        wanted = f"the value of {quoted(key)}"
        metadata[key] = _value(cursor, _value_type(cursor, wanted), wanted)
    return metadata


def _value_type(cursor: ByteCursor, wanted: str) -> GGUFValueType:
    start = cursor.position
    number = cursor.u32(f"the type of {wanted}")
    try:
        return GGUFValueType(number)
    except ValueError:
        raise MalformedFile(f"offset {start}: {wanted} has the unknown type {number}") from None


def _value(cursor: ByteCursor, kind: GGUFValueType, wanted: str) -> object:
    if kind is GGUFValueType.STRING:
        return cursor.text(wanted)
    if kind is GGUFValueType.ARRAY:
        return _array(cursor, wanted, depth=1)
    return _numbers(cursor, kind, 1, wanted)[0]


def _array(cursor: ByteCursor, wanted: str, depth: int) -> list[object]:
    if depth > DEEPEST_ARRAY:
        raise MalformedFile(
            f"offset {cursor.position}: {wanted} nests arrays deeper than the {DEEPEST_ARRAY} allowed"
        )
    kind = _value_type(cursor, f"an element of {wanted}")
    count = cursor.u64(f"the element count of {wanted}")
    if kind is GGUFValueType.STRING:
        cursor.require(count, _LEAST_STRING, wanted)
        return [cursor.text(wanted) for _ in range(count)]
    if kind is GGUFValueType.ARRAY:
        cursor.require(count, _LEAST_ARRAY, wanted)
        return [_array(cursor, wanted, depth + 1) for _ in range(count)]
    return _numbers(cursor, kind, count, wanted)


def _numbers(cursor: ByteCursor, kind: GGUFValueType, count: int, wanted: str) -> list[object]:
    start, dtype = cursor.position, _NUMBERS[kind]
    values = np.frombuffer(cursor.take(count * dtype.itemsize, wanted), dtype)
    if kind is not GGUFValueType.BOOL:
        return list(values.tolist())
    if (values > 1).any():
        place = start + int(np.argmax(values > 1))
        raise MalformedFile(f"offset {place}: {wanted} is a bool that is neither 0 nor 1")
    return list(values.astype(np.bool_).tolist())
