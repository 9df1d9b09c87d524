"""From what a user typed to the model it means."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from zeroulp.model.errors import UnknownModel, UnsupportedModel
from zeroulp.model.formats.safetensors.checkpoint import HUGGING_FACE
from zeroulp.model.library import catalogue
from zeroulp.model.library.catalogue import BuiltIn
from zeroulp.model.library.store import is_pulled, pulled_path

GGUF: Final = ".gguf"
SAFETENSORS: Final = ".safetensors"
SUFFIXES: Final = (GGUF, SAFETENSORS)
"""Endings of the paths that are taken for model files."""


def resolve(name_or_path: str) -> BuiltIn | Path:
    """Return a built-in model, or the path of a pulled or given file of one of ``SUFFIXES``.

    A name of the catalogue is never taken as a path, even if a file of that name is there. The file
    itself is not opened here, except to compare a pulled one with its digest.

    Raises ``UnknownModel``, which says what to do or lists what is allowed, and ``UnsupportedModel`` for a
    Hugging Face folder.
    """
    if name_or_path in catalogue.BUILT_IN:
        return catalogue.BUILT_IN[name_or_path]
    if name_or_path in catalogue.PULLED:
        model = catalogue.PULLED[name_or_path]
        if not is_pulled(model):
            raise UnknownModel(
                f"{model.name} is not pulled, or its file is damaged; run: zeroulp pull {model.name}"
            )
        return pulled_path(model)
    if name_or_path and os.path.isfile(os.path.join(name_or_path, "config.json")):
        raise UnsupportedModel(f"{name_or_path!r} is a Hugging Face folder (config.json). {HUGGING_FACE}")
    if not name_or_path.endswith(SUFFIXES):
        names = ", ".join([*catalogue.BUILT_IN, *catalogue.PULLED])
        raise UnknownModel(
            f"no model is called {name_or_path!r}; use {names} or a path to a {' or '.join(SUFFIXES)} file"
        )
    if not os.path.isfile(name_or_path):
        raise UnknownModel(f"there is no file {name_or_path!r}")
    return Path(name_or_path)
