"""The header of a safetensors file, checked against the file's size before anything is believed.

Knows the container only. Every check comes before memory is allocated for what it is about, and the text
that is parsed is bounded.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from zeroulp.model.errors import MalformedFile, UnsupportedModel
from zeroulp.model.formats.byte_cursor import quoted

LENGTH_BYTES: Final = 8
LARGEST_HEADER: Final = 16 * 2**20
"""Bytes of JSON that are parsed: room for a hundred thousand tensors."""

ITEM_BYTES: Final = {"F32": 4, "F64": 8}
"""The types that are read."""

LARGEST_SIZE: Final = 2**63 - 1

_METADATA: Final = "__metadata__"
_FIELDS: Final = {"dtype", "shape", "data_offsets"}
_MOST_DIMENSIONS: Final = 4


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """One tensor: ``offset`` and ``nbytes`` say where it lies, counted from the file's first byte."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    offset: int
    nbytes: int


def header_length(prefix: bytes, file_size: int) -> int:
    """Return the length of the JSON that follows the first bytes; raises ``MalformedFile``."""
    if len(prefix) < LENGTH_BYTES:
        raise MalformedFile(f"the header's length needs {LENGTH_BYTES} bytes, and the file has {len(prefix)}")
    length = int.from_bytes(prefix, "little")
    left = file_size - LENGTH_BYTES
    if length > left:
        raise MalformedFile(f"the header needs {length} bytes, and {left} are left")
    if length > LARGEST_HEADER:
        raise MalformedFile(f"the header has {length} bytes; {LARGEST_HEADER} are allowed")
    return length


def parse_header(text: bytes, file_size: int) -> tuple[dict[str, str], dict[str, StoredTensor]]:
    """Return the metadata and the tensors of a header; their data fills the rest of the file exactly.

    Raises ``MalformedFile``, or ``UnsupportedModel`` for a type that is not read.
    """
    entries = parse_object(text, "the header")
    metadata = _metadata(entries.pop(_METADATA, {}))
    start = LENGTH_BYTES + len(text)
    tensors = [_tensor(name, entry, start) for name, entry in entries.items()]
    _check_layout(tensors, start, file_size)
    return metadata, {tensor.name: tensor for tensor in tensors}


def parse_object(text: bytes | str, wanted: str) -> dict[str, Any]:
    """Return a JSON object without repeated keys and without NaN; raises ``MalformedFile``."""
    try:
        decoded = text.decode("utf-8") if isinstance(text, bytes) else text
        value = json.loads(decoded, object_pairs_hook=_without_repeats, parse_constant=_refuse_constant)
    except UnicodeDecodeError as error:
        raise MalformedFile(f"{wanted} is not valid UTF-8 at byte {error.start}") from error
    except ValueError as error:
        raise MalformedFile(f"{wanted} is not JSON: {error}") from error
    except RecursionError:
        raise MalformedFile(f"{wanted} is nested too deeply") from None
    if not isinstance(value, dict):
        raise MalformedFile(f"{wanted} is not a JSON object")
    return value


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise MalformedFile(f"the key {quoted(key)} occurs twice")
        found[key] = value
    return found


def _refuse_constant(name: str) -> None:
    raise MalformedFile(f"{name} is not a JSON number")


def _metadata(entry: Any) -> dict[str, str]:
    if not (isinstance(entry, dict) and all(isinstance(value, str) for value in entry.values())):
        raise MalformedFile(f"{_METADATA} is not an object of strings")
    return entry


def _tensor(name: str, entry: Any, start: int) -> StoredTensor:
    wanted = f"tensor {quoted(name)}"
    if not (isinstance(entry, dict) and entry.keys() == _FIELDS):
        raise MalformedFile(f"{wanted} is not an object of {', '.join(sorted(_FIELDS))}")
    dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(dtype, str) or dtype not in ITEM_BYTES:
        raise UnsupportedModel(f"{wanted} is stored as {quoted(dtype)}; {' or '.join(ITEM_BYTES)} is read")
    if not (_are_sizes(shape) and 1 <= len(shape) <= _MOST_DIMENSIONS and min(shape) >= 1):
        raise MalformedFile(
            f"{wanted} has the shape {quoted(shape)}; 1 to {_MOST_DIMENSIONS} positive dimensions are allowed"
        )
    if not (_are_sizes(offsets) and len(offsets) == 2 and offsets[0] <= offsets[1]):
        raise MalformedFile(f"{wanted} has the data_offsets {quoted(offsets)}; a start and an end are needed")
    needed, given = ITEM_BYTES[dtype], offsets[1] - offsets[0]
    for size in shape:
        needed *= size
    if needed != given:
        raise MalformedFile(f"{wanted} of {dtype} {shape} needs {needed} bytes, and its data has {given}")
    return StoredTensor(name, dtype, tuple(shape), start + offsets[0], needed)


def _are_sizes(value: Any) -> bool:
    # A bool is an int to Python, and never a size.
    return isinstance(value, list) and all(type(item) is int and 0 <= item <= LARGEST_SIZE for item in value)


def _check_layout(tensors: Iterable[StoredTensor], start: int, file_size: int) -> None:
    """Refuse data that is outside the file or shared, and bytes that belong to no tensor."""
    end, before = start, ""
    for tensor in sorted(tensors, key=lambda tensor: tensor.offset):
        wanted = f"the data of tensor {quoted(tensor.name)} at offset {tensor.offset}"
        left = max(0, file_size - tensor.offset)
        if tensor.nbytes > left:
            raise MalformedFile(f"{wanted} needs {tensor.nbytes} bytes, and {left} are left")
        if tensor.offset < end:
            raise MalformedFile(f"{wanted} overlaps the data of tensor {quoted(before)}")
        if tensor.offset > end:
            raise MalformedFile(f"{wanted} leaves {tensor.offset - end} bytes before it to no tensor")
        end, before = tensor.offset + tensor.nbytes, tensor.name
    if end != file_size:
        raise MalformedFile(f"{file_size - end} bytes after the last tensor belong to no tensor")
