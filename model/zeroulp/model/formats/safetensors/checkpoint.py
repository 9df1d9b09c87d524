"""A model in a safetensors file of this project's own, by its names and shapes.

Whether the values are finite is not looked at; a call that meets one that is not reports it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Final

from zeroulp.model.configuration import Configuration
from zeroulp.model.errors import MalformedFile, ModelRefused, UnsupportedModel
from zeroulp.model.formats.byte_cursor import quoted
from zeroulp.model.formats.safetensors.file import SafetensorsFile, Values
from zeroulp.model.formats.safetensors.header import StoredTensor
from zeroulp.model.formats.safetensors.metadata import check_format, read_configuration, read_tokenizer

_TABLE: Final = "token_embedding.weight"
_OUTPUTS: Final = ("output.weight", "lm_head.weight", "output_head.weight")
# What Hugging Face's llama files call their tensors.
_HUGGING_FACE_PREFIX: Final = "model."

HUGGING_FACE: Final = (
    "Hugging Face checkpoints are not read, because their queries and keys are laid out for half-split RoPE; "
    "use a GGUF file of the model"
)
"""What is said of a file or folder of theirs."""


class SafetensorsCheckpoint:
    """Configuration, tokenizer and parameters of one open file; used by one thread, and closed by it."""

    def __init__(self, file: SafetensorsFile) -> None:
        self._file = file
        _check_hugging_face(file.tensors)
        check_format(file.metadata)
        _check_tied(file.tensors)
        self.configuration = read_configuration(file.metadata)
        self._names = _checked_names(file.tensors, self.configuration)
        self.tokenizer = read_tokenizer(file.metadata, self.configuration.vocabulary_size)

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> SafetensorsCheckpoint:
        """Open a file and check its header, metadata and the tensors' names and shapes; reads no tensor.

        Raises ``ModelRefused``, ``MalformedFile`` or ``UnsupportedModel``; the message starts with the
        path and names the key or tensor.
        """
        try:
            file = SafetensorsFile.open(Path(path))
            try:
                return cls(file)
            except BaseException:
                file.close()
                raise
        except ModelRefused as error:
            raise type(error)(f"{os.fspath(path)}: {error}") from error

    @property
    def file_bytes(self) -> int:
        """Size of the file in bytes."""
        return self._file.size

    def parameters(self) -> Iterator[tuple[str, Values]]:
        """Yield every parameter's name and exact values in ``parameter_shapes`` order, one at a time.

        Raises ``MalformedFile`` if the file was cut short since it was opened.
        """
        for name in self._names:
            yield name, self._file.read(name)

    def __enter__(self) -> SafetensorsCheckpoint:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()


def _check_hugging_face(tensors: Mapping[str, StoredTensor]) -> None:
    for name in tensors:
        if name.startswith(_HUGGING_FACE_PREFIX):
            raise UnsupportedModel(f"the tensor {quoted(name)} is Hugging Face's. {HUGGING_FACE}")


def _check_tied(tensors: Mapping[str, StoredTensor]) -> None:
    for name in _OUTPUTS:
        if name in tensors:
            raise UnsupportedModel(
                f"the tensor {name} is an output matrix of its own; the table {_TABLE} is stored once and "
                "is the output matrix too, untied models are not served"
            )


def _checked_names(tensors: Mapping[str, StoredTensor], configuration: Configuration) -> list[str]:
    # Before names are made for a number of layers that no file could hold the tensors of.
    if configuration.layers > len(tensors):
        raise MalformedFile(
            f"configuration: layers is {configuration.layers}, and the file has {len(tensors)} tensors in all"
        )
    shapes = configuration.parameter_shapes()
    for name, shape in shapes.items():
        if name not in tensors:
            raise MalformedFile(f"the tensor {name} is missing")
        if tensors[name].shape != shape:
            raise MalformedFile(
                f"the tensor {name} has shape {list(tensors[name].shape)}; "
                f"the configuration asks for {list(shape)}"
            )
    for name in sorted(tensors.keys() - shapes.keys()):
        raise UnsupportedModel(
            f"the tensor {quoted(name)} is not known; a model of {configuration.layers} layers "
            f"has {len(shapes)} tensors"
        )
    return list(shapes)
