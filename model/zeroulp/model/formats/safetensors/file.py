"""A safetensors file, open for reading.

It is read and not mapped: a file that is cut short meanwhile gives an error here, where a mapping would end
the process, and with it the daemon that reads a new file while it serves.
"""

from __future__ import annotations

import os
from io import FileIO
from pathlib import Path
from types import TracebackType
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from zeroulp.model.errors import MalformedFile, ModelRefused
from zeroulp.model.formats.byte_cursor import quoted
from zeroulp.model.formats.regular_file import open_regular
from zeroulp.model.formats.safetensors.header import LENGTH_BYTES, header_length, parse_header

Values = NDArray[np.floating[Any]]

_DTYPES: Final[dict[str, np.dtype[np.floating[Any]]]] = {"F32": np.dtype("<f4"), "F64": np.dtype("<f8")}


class SafetensorsFile:
    """Metadata and tensors of one file; used by one thread, and closed by it."""

    def __init__(self, file: FileIO) -> None:
        self._file = file
        self.size = os.fstat(file.fileno()).st_size
        length = header_length(self._file.read(LENGTH_BYTES), self.size)
        text = self._read_into(bytearray(length), "the header")
        self.metadata, self.tensors = parse_header(bytes(text), self.size)

    @classmethod
    def open(cls, path: Path) -> SafetensorsFile:
        """Open a file and check all of its header; no tensor's data is read.

        Raises ``ModelRefused`` (no readable regular file), ``MalformedFile`` (truncated or in
        contradiction with itself) or ``UnsupportedModel`` (a type that is not read).
        """
        file = open_regular(path)
        try:
            return cls(file)
        except BaseException:
            file.close()
            raise

    def read(self, name: str) -> Values:
        """Return a tensor's values in a new array; raises ``KeyError`` and ``MalformedFile``."""
        tensor = self.tensors[name]
        values: Values = np.empty(tensor.shape, _DTYPES[tensor.dtype])
        self._file.seek(tensor.offset)
        self._read_into(values.reshape(-1).view(np.uint8).data, f"tensor {quoted(name)}")
        return values

    def _read_into(self, buffer: bytearray | memoryview, wanted: str) -> bytearray | memoryview:
        view, done = memoryview(buffer), 0
        while done < len(view):
            try:
                count = self._file.readinto(view[done:])
            except OSError as error:
                raise ModelRefused(f"{wanted} cannot be read: {error.strerror}") from error
            if not count:
                raise MalformedFile(f"{wanted} ends {len(view) - done} bytes early: the file was cut short")
            done += count
        return buffer

    def close(self) -> None:
        """Let the file go."""
        self._file.close()

    def __enter__(self) -> SafetensorsFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
