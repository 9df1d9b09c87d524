"""What a model file says beside its tensors: configuration and tokenizer, as strings of JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any, Final

from zeroulp.model.configuration import Configuration
from zeroulp.model.errors import MalformedFile, UnsupportedModel
from zeroulp.model.formats.byte_cursor import quoted
from zeroulp.model.formats.safetensors.header import LARGEST_SIZE, parse_object
from zeroulp.model.text import DocumentBpe, Tokenizer

FORMAT: Final = "zeroulp"
VERSION: Final = "1"

_FORMAT_KEY: Final = "format"
_VERSION_KEY: Final = "format_version"
_CONFIGURATION_KEY: Final = "configuration"
_TOKENIZER_KEY: Final = "tokenizer"
_KNOWN: Final = {_FORMAT_KEY, _VERSION_KEY, _CONFIGURATION_KEY, _TOKENIZER_KEY}


def written(configuration: Configuration, tokenizer: Tokenizer | None) -> dict[str, str]:
    """Return the metadata of a model; raises ``UnsupportedModel`` for a tokenizer that has no form here."""
    metadata = {
        _FORMAT_KEY: FORMAT,
        _VERSION_KEY: VERSION,
        _CONFIGURATION_KEY: json.dumps(asdict(configuration), allow_nan=False),
    }
    if tokenizer is not None:
        metadata[_TOKENIZER_KEY] = tokenizer_json(tokenizer)
    return metadata


def check_format(metadata: Mapping[str, str]) -> None:
    """Refuse another format or version, and any key that is not acted upon; raises ``UnsupportedModel``."""
    if metadata.get(_FORMAT_KEY) != FORMAT:
        shown = quoted(metadata[_FORMAT_KEY]) if _FORMAT_KEY in metadata else "absent"
        raise UnsupportedModel(
            f"the metadata key {_FORMAT_KEY} is {shown}; only {FORMAT!r}, which save_model writes, is read"
        )
    version = metadata.get(_VERSION_KEY)
    if version != VERSION:
        raise UnsupportedModel(f"{_VERSION_KEY} is {quoted(version)}; only {VERSION!r} is read")
    for key in sorted(metadata.keys() - _KNOWN):
        raise UnsupportedModel(
            f"the metadata key {quoted(key)} is not known; known are {', '.join(sorted(_KNOWN))}"
        )


def read_configuration(metadata: Mapping[str, str]) -> Configuration:
    """Return the configuration; raises ``MalformedFile``, or ``UnsupportedModel`` as it does itself."""
    if _CONFIGURATION_KEY not in metadata:
        raise MalformedFile(f"the metadata key {_CONFIGURATION_KEY} is absent")
    given = parse_object(metadata[_CONFIGURATION_KEY], _CONFIGURATION_KEY)
    types = {field.name: field.type for field in fields(Configuration)}
    for name in sorted(given.keys() ^ types.keys()):
        problem = "is absent" if name in types else "is not known"
        raise MalformedFile(f"{_CONFIGURATION_KEY}: {quoted(name)} {problem}")
    for name, value in given.items():
        _check_type(name, value, str(types[name]))
    return Configuration(**given)


def _check_type(name: str, value: Any, wanted: str) -> None:
    # By the type itself: a bool is an int to Python, and never a size.
    if type(value).__name__.replace("NoneType", "None") not in wanted.split(" | "):
        raise MalformedFile(f"{_CONFIGURATION_KEY}: {name} is {quoted(value)}; it must be of type {wanted}")
    if isinstance(value, int) and value > LARGEST_SIZE:
        raise MalformedFile(f"{_CONFIGURATION_KEY}: {name} is {quoted(value)}; {LARGEST_SIZE} is allowed")


def tokenizer_json(tokenizer: Tokenizer) -> str:
    """Return the stored form of a tokenizer; raises ``UnsupportedModel`` for one that has none."""
    if not isinstance(tokenizer, DocumentBpe):
        raise UnsupportedModel(
            f"a tokenizer of kind {tokenizer.kind} has no form in a safetensors file; "
            f"{DocumentBpe.kind} has, and a model may be saved without one"
        )
    return json.dumps({"kind": tokenizer.kind, "merges": tokenizer.merges})


def read_tokenizer(metadata: Mapping[str, str], vocabulary_size: int) -> DocumentBpe | None:
    """Return the tokenizer, None where there is none; raises ``MalformedFile`` or ``UnsupportedModel``."""
    if _TOKENIZER_KEY not in metadata:
        return None
    given = parse_object(metadata[_TOKENIZER_KEY], _TOKENIZER_KEY)
    if given.get("kind") != DocumentBpe.kind:
        raise UnsupportedModel(
            f"{_TOKENIZER_KEY}: kind is {quoted(given.get('kind'))}; only {DocumentBpe.kind!r} is read"
        )
    merges = given.get("merges")
    if given.keys() != {"kind", "merges"} or not isinstance(merges, list):
        raise MalformedFile(f"{_TOKENIZER_KEY}: it must hold kind and merges, a list, and nothing else")
    for rank, pair in enumerate(merges):
        if not (isinstance(pair, list) and len(pair) == 2 and all(type(token) is int for token in pair)):
            raise MalformedFile(f"{_TOKENIZER_KEY}: merge {rank} is {quoted(pair)}; it must be two ids")
    return DocumentBpe([(left, right) for left, right in merges], vocabulary_size=vocabulary_size)
