"""Saving a model, so that loading it gives every bit back."""

from __future__ import annotations

import os
from pathlib import Path

from safetensors import SafetensorError
from safetensors.numpy import save_file

from zeroulp.model.configuration import Configuration
from zeroulp.model.errors import UnsupportedModel
from zeroulp.model.formats.safetensors.metadata import written
from zeroulp.model.packing import single_if_exact
from zeroulp.model.parameters import ParameterInventory
from zeroulp.model.text import Tokenizer
from zeroulp.model.whole_file import whole_file


def save_model(
    path: str | os.PathLike[str],
    configuration: Configuration,
    parameters: ParameterInventory,
    tokenizer: Tokenizer | None = None,
) -> None:
    """Write a model to ``path``, whole or not at all; a file that is there is replaced at the end.

    Takes memory for all values at once, as the file holds them. Raises ``UnsupportedModel`` for parameters
    that are not this configuration's or a tokenizer that has no stored form, and ``OSError``.
    """
    metadata = written(configuration, tokenizer)
    _check_vocabulary(configuration, tokenizer)
    _check_shapes(configuration, parameters)
    tensors = {name: single_if_exact(node.values()) for name, node in parameters.items()}
    with whole_file(Path(path)) as part:
        try:
            save_file(tensors, part, metadata)
        except SafetensorError as error:
            raise OSError(f"the model could not be written: {error}") from error


def _check_vocabulary(configuration: Configuration, tokenizer: Tokenizer | None) -> None:
    if tokenizer is not None and tokenizer.vocabulary_size != configuration.vocabulary_size:
        raise UnsupportedModel(
            f"the tokenizer has {tokenizer.vocabulary_size} ids; "
            f"the model has a vocabulary of {configuration.vocabulary_size}"
        )


def _check_shapes(configuration: Configuration, parameters: ParameterInventory) -> None:
    shapes = configuration.parameter_shapes()
    given = {name: node.shape for name, node in parameters.items()}
    for name in sorted(shapes.keys() | given.keys()):
        if shapes.get(name) != given.get(name):
            raise UnsupportedModel(
                f"parameter {name}: shape {given.get(name)}, the configuration asks for {shapes.get(name)}"
            )
