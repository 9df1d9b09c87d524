"""A tied llama checkpoint in a GGUF file, by this project's names and shapes.

Llama GGUF files keep query and key rows permuted for adjacent-pair RoPE, which is this project's
convention: nothing is permuted here. Whether the values are finite is not looked at either; a call
that meets one that is not reports it.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from zeroulp.model.configuration import Configuration
from zeroulp.model.errors import MalformedFile, ModelRefused, UnsupportedModel
from zeroulp.model.formats.byte_cursor import quoted
from zeroulp.model.formats.gguf_file import GgufFile
from zeroulp.model.formats.gguf_tensor import Values
from zeroulp.model.formats.llama_metadata import check_architecture, layer_count, read_configuration
from zeroulp.model.formats.llama_names import OUTPUT, ROPE_FACTORS, TABLE, stored_names

# Table rows compared at a time with a stored output matrix.
_ROWS_COMPARED = 256


class LlamaCheckpoint:
    """Configuration and parameters of one file, immutable, safe to read from any thread."""

    def __init__(self, file: GgufFile) -> None:
        check_architecture(file.metadata)
        self._file = file
        self._stored = _find_tensors(file)
        self.configuration = read_configuration(file.metadata, _vocabulary_size(file))
        _check_shapes(file, self._stored, self.configuration)
        _check_rope_factors(file, self.configuration.head_width // 2)
        _check_tied(file)

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> LlamaCheckpoint:
        """Open a file and check its keys, its tensors' names and shapes, and that it is tied.

        Reads no tensor but a stored output matrix, with the table, and RoPE factors.

        Raises ``ModelRefused``, ``MalformedFile`` or ``UnsupportedModel``; the message starts with the
        path and names the key or tensor.
        """
        file = GgufFile.open(path)
        try:
            return cls(file)
        except ModelRefused as error:
            raise type(error)(f"{os.fspath(path)}: {error}") from error

    @property
    def metadata(self) -> Mapping[str, object]:
        """Every key of the file, the tokenizer's too."""
        return self._file.metadata

    @property
    def file_bytes(self) -> int:
        """Size of the file in bytes."""
        return self._file.size

    @property
    def storage_types(self) -> dict[str, int]:
        """How many parameters are stored as each type, such as ``{"Q4_1": 210, "F32": 61}``."""
        return dict(Counter(self.storage_type(name) for name in self._stored))

    def storage_type(self, name: str) -> str:
        """Return the type that a parameter is stored as; raises ``KeyError`` for an unknown name."""
        return self._file.tensors[self._stored[name]].type_name

    def raw(self, name: str) -> NDArray[np.uint8]:
        """Return a parameter's stored blocks ``[out, row_bytes]`` (gains ``[1, row_bytes]``).

        A read-only view of the file, one row for each output; raises ``KeyError`` for an unknown name.
        """
        return self._file.raw(self._stored[name])

    def tensor(self, name: str) -> Values:
        """Return a parameter's exact values in the shape ``Configuration.parameter_shapes`` gives it.

        A matrix ``[in, out]`` is the transposed view of what was read. Raises ``KeyError`` for an
        unknown name.
        """
        values = self._file.read(self._stored[name])
        return values.T if _is_transposed(name) else values  # [out, in] -> [in, out]

    def parameters(self) -> Iterator[tuple[str, Values]]:
        """Yield every parameter's name and values in ``parameter_shapes`` order, one in memory at a time."""
        for name in self._stored:
            yield name, self.tensor(name)


def _is_transposed(name: str) -> bool:
    # The table is looked up by row in both conventions, and gains have one dimension.
    return name.startswith("blocks.") and name.endswith(".weight")


def _find_tensors(file: GgufFile) -> dict[str, str]:
    """Return parameter name -> tensor name; refuse a tensor that is missing or has no use here."""
    stored: dict[str, str] = {}
    for ours, theirs in stored_names(layer_count(file.metadata)):
        if theirs not in file.tensors:
            raise MalformedFile(f"the tensor {theirs} is missing")
        stored[ours] = theirs
    for name in sorted(file.tensors.keys() - stored.values() - {OUTPUT, ROPE_FACTORS}):
        raise UnsupportedModel(
            f"the tensor {quoted(name)} has no place in a llama model as served here (no biases, no experts)"
        )
    return stored


def _vocabulary_size(file: GgufFile) -> int:
    shape = file.tensors[TABLE].shape
    if len(shape) != 2:
        raise MalformedFile(f"the tensor {TABLE} has shape {list(shape)}; a table has two dimensions")
    return shape[0]


def _check_shapes(file: GgufFile, stored: Mapping[str, str], configuration: Configuration) -> None:
    for name, shape in configuration.parameter_shapes().items():
        _check_shape(file, stored[name], shape[::-1] if _is_transposed(name) else shape)


def _check_shape(file: GgufFile, name: str, shape: tuple[int, ...]) -> None:
    tensor = file.tensors[name]
    if tensor.shape != shape:
        raise MalformedFile(
            f"the tensor {name} has shape {list(tensor.shape)}; the configuration asks for {list(shape)}"
        )
    tensor.check_readable()


def _check_rope_factors(file: GgufFile, pairs: int) -> None:
    if ROPE_FACTORS not in file.tensors:
        return
    _check_shape(file, ROPE_FACTORS, (pairs,))
    if not (file.read(ROPE_FACTORS) == 1.0).all():
        raise UnsupportedModel(
            f"the tensor {ROPE_FACTORS} scales RoPE frequencies; only factors of exactly 1 are served"
        )


def _check_tied(file: GgufFile) -> None:
    """Accept no output matrix, or one that equals the table in bytes or in values."""
    if OUTPUT not in file.tensors:
        return
    table = file.tensors[TABLE]
    _check_shape(file, OUTPUT, table.shape)
    same_type = table.type_name == file.tensors[OUTPUT].type_name
    for start in range(0, table.rows, _ROWS_COMPARED):
        stop = start + _ROWS_COMPARED
        # Bytes first: a NaN in both is the same parameter, although it equals nothing.
        if same_type and np.array_equal(file.raw(TABLE)[start:stop], file.raw(OUTPUT)[start:stop]):
            continue
        if not np.array_equal(file.read_rows(TABLE, start, stop), file.read_rows(OUTPUT, start, stop)):
            raise UnsupportedModel(
                f"the tensor {OUTPUT} differs from the table {TABLE}; untied models are not served"
            )
