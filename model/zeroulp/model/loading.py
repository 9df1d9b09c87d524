"""From a name or path to a model that is ready to serve."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from zeroulp.model.composition.language_model import LanguageModel
from zeroulp.model.configuration import Configuration
from zeroulp.model.errors import ModelRefused
from zeroulp.model.formats.llama import LlamaCheckpoint
from zeroulp.model.formats.safetensors import SafetensorsCheckpoint
from zeroulp.model.formats.safetensors.metadata import tokenizer_json
from zeroulp.model.initialisation import initialised
from zeroulp.model.library.catalogue import BuiltIn
from zeroulp.model.library.resolve import SAFETENSORS, SUFFIXES, resolve
from zeroulp.model.parameters import TABLE, ParameterInventory, Values
from zeroulp.model.quantised import pack_blocks, packs
from zeroulp.model.text import (
    ChatTemplate,
    DocumentBpe,
    Tokenizer,
    chat_template_from_gguf,
    tokenizer_from_gguf,
)

Progress = Callable[[int, int], None]
"""Told how many parameters of how many are in place."""


@dataclass(frozen=True, slots=True, eq=False)
class LoadedModel:
    """A model with its text side; ``seconds`` and ``file_bytes`` tell what loading took."""

    name: str
    model: LanguageModel
    tokenizer: Tokenizer | None
    """None: only token ids are served, for the reason in ``text_refused``."""
    text_refused: str | None
    chat: ChatTemplate | None
    chat_source: str
    file_bytes: int
    seconds: float
    source: str = ""
    """The name or path that it was loaded by."""
    text_digest: str = ""
    """Equal for equal text sides; empty where the source says nothing of text."""


def load(name_or_path: str, progress: Progress = lambda done, total: None) -> LoadedModel:
    """Load a built-in, a pulled model, or a GGUF or safetensors file.

    Raises ``ModelRefused`` with what is wrong and what is allowed.
    """
    started = time.monotonic()
    found = resolve(name_or_path)
    if isinstance(found, BuiltIn):
        loaded = _load_built_in(found, progress)
    elif found.suffix == SAFETENSORS:
        loaded = _load_safetensors(found, progress)
    else:
        loaded = _load_gguf(found, progress)
    name = loaded.name if name_or_path.endswith(SUFFIXES) else name_or_path
    return replace(loaded, name=name, source=name_or_path, seconds=time.monotonic() - started)


def _load_built_in(found: BuiltIn, progress: Progress) -> LoadedModel:
    model = _model(found.configuration, initialised(found.configuration, found.seed), progress)
    tokenizer = DocumentBpe.glass_default() if found.name == "glass-default" else DocumentBpe.bytes_only()
    return _with_tokenizer(found.name, model, tokenizer, 0)


def _load_safetensors(path: Path, progress: Progress) -> LoadedModel:
    with SafetensorsCheckpoint.open(path) as checkpoint:
        model = _model(checkpoint.configuration, checkpoint.parameters(), progress)
        return _with_tokenizer(path.stem, model, checkpoint.tokenizer, checkpoint.file_bytes)


def _with_tokenizer(
    name: str, model: LanguageModel, tokenizer: DocumentBpe | None, file_bytes: int
) -> LoadedModel:
    digest = _digest(tokenizer_json(tokenizer)) if tokenizer is not None else ""
    return LoadedModel(name, model, tokenizer, None, None, "", file_bytes, 0.0, text_digest=digest)


def _load_gguf(path: Path, progress: Progress) -> LoadedModel:
    checkpoint = LlamaCheckpoint.open(path)
    model = _model(checkpoint.configuration, _stored(checkpoint), progress)
    tokenizer: Tokenizer | None = None
    chat: ChatTemplate | None = None
    refused = None
    try:
        tokenizer = tokenizer_from_gguf(checkpoint.metadata)
        chat = chat_template_from_gguf(checkpoint.metadata)
    except ModelRefused as error:
        # The numbers are served all the same: ids in, logits out.
        refused = str(error)
    source = checkpoint.metadata.get("tokenizer.chat_template") if chat is not None else None
    text = {key: value for key, value in checkpoint.metadata.items() if key.startswith("tokenizer.")}
    return LoadedModel(
        path.stem,
        model,
        tokenizer,
        refused,
        chat,
        str(source or ""),
        checkpoint.file_bytes,
        0.0,
        text_digest=_digest(json.dumps(text, sort_keys=True)) if text else "",
    )


def _model(
    configuration: Configuration, values: Iterable[tuple[str, Values]], progress: Progress
) -> LanguageModel:
    counted = _counted(values, len(configuration.parameter_shapes()), progress)
    return LanguageModel(configuration, ParameterInventory(configuration, counted))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _stored(checkpoint: LlamaCheckpoint) -> Iterator[tuple[str, Values]]:
    """Yield each parameter; quantised blocks that the kernels widen themselves stay as they are."""
    for name, shape in checkpoint.configuration.parameter_shapes().items():
        storage_type, raw = checkpoint.storage_type(name), checkpoint.raw(name)
        if packs(storage_type, raw):
            depth = shape[1] if name == TABLE else shape[0]
            yield name, pack_blocks(storage_type, raw, depth)
        else:
            yield name, checkpoint.tensor(name)


def _counted(
    values: Iterable[tuple[str, Values]], total: int, progress: Progress
) -> Iterator[tuple[str, Values]]:
    for done, item in enumerate(values, 1):
        yield item
        progress(done, total)
