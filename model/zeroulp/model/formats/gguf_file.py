"""A GGUF file (versions 2 and 3, little-endian), mapped and checked before anything is believed.

Knows the container only: which architecture it holds, and what its tensors mean, is for others.
"""

from __future__ import annotations

import dataclasses
import mmap
import os
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

import numpy as np
from numpy.typing import NDArray

from zeroulp.model.errors import MalformedFile, ModelRefused, UnsupportedModel
from zeroulp.model.formats.byte_cursor import ByteCursor
from zeroulp.model.formats.gguf_tensor import GgufTensor, Values, check_layout, read_directory
from zeroulp.model.formats.gguf_value import read_metadata
from zeroulp.model.formats.regular_file import open_regular

_MAGIC: Final = b"GGUF"
_VERSIONS: Final = (2, 3)
_ALIGNMENT_KEY: Final = "general.alignment"
_DEFAULT_ALIGNMENT: Final = 32
# Values widened at a time: beside the answer itself, reading takes a few megabytes.
_SLAB_VALUES: Final = 2**18


class GgufFile:
    """Metadata and tensors of one file, immutable, safe to read from any thread.

    ``metadata`` holds Python ints, floats, bools, strings and lists of them; ``tensors`` is in the
    file's order; ``size`` is the file's, in bytes. The file must not be changed while it is open.
    """

    def __init__(self, data: mmap.mmap) -> None:
        cursor = ByteCursor(data)
        _check_version(cursor)
        tensor_count = cursor.u64("the tensor count")
        key_count = cursor.u64("the metadata count")
        metadata = read_metadata(cursor, key_count)
        directory = read_directory(cursor, tensor_count)
        alignment = _alignment(metadata)
        # The data starts at the first aligned byte after the directory.
        start = -(-cursor.position // alignment) * alignment
        tensors = [dataclasses.replace(tensor, offset=start + tensor.offset) for tensor in directory]
        check_layout(tensors, alignment, len(data))

        self._data = data
        self.size = len(data)
        self.metadata: Mapping[str, object] = MappingProxyType(metadata)
        self.tensors: Mapping[str, GgufTensor] = MappingProxyType({each.name: each for each in tensors})

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> GgufFile:
        """Map the file at ``path`` and check all of its header; no tensor's data is read.

        Raises ``ModelRefused`` (no readable regular file), ``MalformedFile`` (truncated or in
        contradiction with itself) or ``UnsupportedModel`` (another version, byte order or tensor
        type). The message starts with the path.
        """
        try:
            return cls(_map(Path(path)))
        except ModelRefused as error:
            raise type(error)(f"{os.fspath(path)}: {error}") from error

    def raw(self, name: str) -> NDArray[np.uint8]:
        """Return a tensor's stored bytes ``[rows, row_bytes]``, a read-only view of the file."""
        tensor = self.tensors[name]
        flat = np.frombuffer(self._data, np.uint8, tensor.nbytes, tensor.offset)
        return flat.reshape(tensor.rows, tensor.row_bytes)

    def read_rows(self, name: str, start: int, stop: int) -> Values:
        """Return rows ``start`` to ``stop`` of the flattened matrix, ``[stop - start, shape[-1]]``.

        Values and errors are those of ``read``; F32 and F64 rows are read-only views of the file.
        """
        return self.tensors[name].widen(self.raw(name)[start:stop])

    def read(self, name: str) -> Values:
        """Return a tensor's values in row-major ``shape``, a new array independent of the file.

        Every value is exactly the one the format defines: float64 for F64, float32 for the rest.
        Raises ``KeyError`` for a name that is not in ``tensors`` and ``UnsupportedModel`` for a type
        that holds no numbers this project reads.
        """
        tensor = self.tensors[name]
        tensor.check_readable()
        values = np.empty((tensor.rows, tensor.shape[-1]), tensor.dtype)
        slab = max(1, _SLAB_VALUES // tensor.shape[-1])
        for row in range(0, tensor.rows, slab):
            values[row : row + slab] = self.read_rows(name, row, row + slab)
        return values.reshape(tensor.shape)


def _map(path: Path) -> mmap.mmap:
    with open_regular(path) as file:
        try:
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError) as error:
            raise ModelRefused(f"the file cannot be mapped: {error}") from error


def _check_version(cursor: ByteCursor) -> None:
    magic = cursor.take(len(_MAGIC), "the magic number")
    if magic != _MAGIC:
        raise MalformedFile(f"this is no GGUF file: it starts with {magic!r}, not {_MAGIC!r}")
    version = cursor.u32("the version")
    # A small version written in the other byte order has its low half empty.
    if version and not version & 0xFFFF:
        raise UnsupportedModel("this is a big-endian GGUF file; only little-endian ones are read")
    if version not in _VERSIONS:
        raise UnsupportedModel(f"GGUF version {version} is not read; versions 2 and 3 are")


def _alignment(metadata: Mapping[str, object]) -> int:
    alignment = metadata.get(_ALIGNMENT_KEY, _DEFAULT_ALIGNMENT)
    if not isinstance(alignment, int) or isinstance(alignment, bool):
        raise MalformedFile(f"{_ALIGNMENT_KEY} is not an integer")
    if alignment < 1 or alignment & (alignment - 1):
        raise MalformedFile(f"{_ALIGNMENT_KEY} is {alignment}; it must be a power of two")
    return alignment
