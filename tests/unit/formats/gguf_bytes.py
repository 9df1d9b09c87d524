"""GGUF files made by hand, byte by byte, so that any field can be wrong."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from gguf.constants import GGUFValueType

F32, F16 = 0, 1


def u32(value: int) -> bytes:
    return struct.pack("<I", value)


def u64(value: int) -> bytes:
    return struct.pack("<Q", value)


def text(value: str | bytes) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return u64(len(data)) + data


def entry(key: str | bytes, kind: int, value: bytes) -> bytes:
    return text(key) + u32(kind) + value


def array(kind: int, values: Sequence[bytes]) -> bytes:
    return u32(kind) + u64(len(values)) + b"".join(values)


def alignment(value: int) -> bytes:
    return entry("general.alignment", GGUFValueType.UINT32, u32(value))


def tensor(name: str | bytes, dims: Sequence[int], kind: int = F32, offset: int = 0) -> bytes:
    return text(name) + u32(len(dims)) + b"".join(map(u64, dims)) + u32(kind) + u64(offset)


def gguf(
    entries: Sequence[bytes] = (),
    tensors: Sequence[bytes] = (),
    data: bytes = b"",
    align: int = 32,
    version: int = 3,
) -> bytes:
    """Return a whole file; ``data`` starts at the next multiple of ``align``."""
    head = b"GGUF" + u32(version) + u64(len(tensors)) + u64(len(entries)) + b"".join([*entries, *tensors])
    return head + bytes(-len(head) % align) + data if data else head
