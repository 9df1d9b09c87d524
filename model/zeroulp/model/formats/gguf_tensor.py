"""The tensor directory of a GGUF file: where each tensor lies, checked against the file's size."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType
from gguf.quants import dequantize
from numpy.typing import NDArray

from zeroulp.model.errors import MalformedFile, UnsupportedModel
from zeroulp.model.formats.byte_cursor import ByteCursor, quoted

MOST_DIMENSIONS: Final = 4
_LARGEST_SIZE: Final = 2**63 - 1
# The length of a name, the count of dimensions and one dimension, the type, the offset.
_LEAST_ENTRY: Final = 8 + 4 + 8 + 4 + 8

Values = NDArray[np.floating[Any]]
"""Widened values: float64 where a tensor is stored as F64, float32 everywhere else."""

_TYPE_SIZES: Final = {kind.name: sizes for kind, sizes in GGML_QUANT_SIZES.items()}


@dataclass(frozen=True, slots=True)
class GgufTensor:
    """One tensor of a file: ``shape`` in row-major order, ``offset`` in bytes from the file's start."""

    name: str
    shape: tuple[int, ...]
    type_name: str
    offset: int
    nbytes: int

    @property
    def rows(self) -> int:
        """Rows of the flattened matrix ``[rows, shape[-1]]``; each is stored as whole blocks."""
        return math.prod(self.shape[:-1])

    @property
    def row_bytes(self) -> int:
        """Stored bytes of one row."""
        return self.nbytes // self.rows

    @property
    def dtype(self) -> type[np.floating[Any]]:
        """The type that holds every value exactly."""
        return np.float64 if self.type_name == "F64" else np.float32

    def check_readable(self) -> None:
        """Raise ``UnsupportedModel``, naming tensor and type, if ``widen`` has no rule for the type."""
        if self.type_name != "F64" and not _can_dequantize(self.type_name):
            raise UnsupportedModel(
                f"tensor {quoted(self.name)} is stored as {self.type_name}, which cannot be read as numbers"
            )

    def widen(self, stored: NDArray[np.uint8]) -> Values:
        """Return stored rows ``[n, row_bytes]`` as ``[n, shape[-1]]``, exactly as the format defines.

        F32 and F64 are views of ``stored``. Raises ``UnsupportedModel`` as ``check_readable`` does.
        """
        self.check_readable()
        if self.type_name == "F64":
            return stored.view(np.float64)
        # A block may hold infinities and NaN; a call that meets them reports them by name.
        with np.errstate(all="ignore"):
            return dequantize(stored, GGMLQuantizationType[self.type_name])


@functools.cache
def _can_dequantize(type_name: str) -> bool:
    block = np.zeros((1, _TYPE_SIZES[type_name][1]), np.uint8)
    try:
        dequantize(block, GGMLQuantizationType[type_name])
    except NotImplementedError:
        return False
    return True


def read_directory(cursor: ByteCursor, count: int) -> list[GgufTensor]:
    """Read ``count`` entries, with offsets still relative to the start of the tensor data.

    Raises ``MalformedFile`` (truncation, a name that occurs twice, dimensions that are zero, more than
    four or too large, rows that are no whole blocks) and ``UnsupportedModel`` (an unknown type).
    """
    cursor.require(count, _LEAST_ENTRY, "the tensor directory")
    tensors: dict[str, GgufTensor] = {}
    for _ in range(count):
        start = cursor.position
        tensor = _entry(cursor)
        if tensor.name in tensors:
            raise MalformedFile(f"offset {start}: the tensor {quoted(tensor.name)} occurs twice")
        tensors[tensor.name] = tensor
    return list(tensors.values())


def _entry(cursor: ByteCursor) -> GgufTensor:
    start = cursor.position
    name = cursor.text("a tensor's name")
    wanted = f"tensor {quoted(name)}"
    dimensions = cursor.u32(f"the dimension count of {wanted}")
    if not 1 <= dimensions <= MOST_DIMENSIONS:
        raise MalformedFile(
            f"offset {start}: {wanted} has {dimensions} dimensions; 1 to {MOST_DIMENSIONS} are allowed"
        )
    # The file lists the fastest dimension first.
    shape = tuple(reversed([cursor.u64(f"a dimension of {wanted}") for _ in range(dimensions)]))
    size = math.prod(shape)
    if not 0 < size <= _LARGEST_SIZE:
        raise MalformedFile(f"offset {start}: {wanted} has the impossible shape {list(shape)}")
    type_name = _type_name(cursor, wanted)
    block, block_bytes = _TYPE_SIZES[type_name]
    if shape[-1] % block:
        raise MalformedFile(
            f"offset {start}: {wanted} has rows of {shape[-1]} values; {type_name} stores blocks of {block}"
        )
    offset = cursor.u64(f"the offset of {wanted}")
    return GgufTensor(name, shape, type_name, offset, size // block * block_bytes)


def _type_name(cursor: ByteCursor, wanted: str) -> str:
    start = cursor.position
    number = cursor.u32(f"the type of {wanted}")
    try:
        return GGMLQuantizationType(number).name
    except ValueError:
        raise UnsupportedModel(f"offset {start}: {wanted} has the unknown type {number}") from None


def check_layout(tensors: Iterable[GgufTensor], alignment: int, file_size: int) -> None:
    """Refuse data that is unaligned, outside the file or shared by two tensors.

    Offsets are absolute; the caller has rounded the start of the data up to ``alignment``, so that an
    absolute offset is aligned when the relative one is.
    """
    end, before = 0, ""
    for tensor in sorted(tensors, key=lambda tensor: tensor.offset):
        wanted = f"the data of tensor {quoted(tensor.name)} at offset {tensor.offset}"
        if tensor.offset % alignment:
            raise MalformedFile(f"{wanted} is not aligned to {alignment} bytes")
        if tensor.offset < end:
            raise MalformedFile(f"{wanted} overlaps the data of tensor {quoted(before)}")
        left = max(0, file_size - tensor.offset)
        if tensor.nbytes > left:
            raise MalformedFile(f"{wanted} needs {tensor.nbytes} bytes, and {left} are left")
        end, before = tensor.offset + tensor.nbytes, tensor.name
