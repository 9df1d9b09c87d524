"""From a name or path to a model that is ready to serve."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from zeroulp.model.composition.language_model import LanguageModel
from zeroulp.model.errors import ModelRefused
from zeroulp.model.formats.llama import LlamaCheckpoint
from zeroulp.model.initialisation import initialised
from zeroulp.model.library.catalogue import BuiltIn
from zeroulp.model.library.resolve import resolve
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


def load(name_or_path: str, progress: Progress = lambda done, total: None) -> LoadedModel:
    """Load a built-in, a pulled model or a GGUF file.

    Raises ``ModelRefused`` with what is wrong and what is allowed.
    """
    started = time.monotonic()
    found = resolve(name_or_path)
    if isinstance(found, BuiltIn):
        values = _counted(
            initialised(found.configuration, found.seed),
            len(found.configuration.parameter_shapes()),
            progress,
        )
        model = LanguageModel(found.configuration, ParameterInventory(found.configuration, values))
        tokenizer = DocumentBpe.glass_default() if found.name == "glass-default" else DocumentBpe.bytes_only()
        return LoadedModel(found.name, model, tokenizer, None, None, "", 0, time.monotonic() - started)
    return _load_file(name_or_path, found, progress, started)


def _load_file(name_or_path: str, path: Path, progress: Progress, started: float) -> LoadedModel:
    checkpoint = LlamaCheckpoint.open(path)
    configuration = checkpoint.configuration
    values = _counted(_stored(checkpoint), len(configuration.parameter_shapes()), progress)
    model = LanguageModel(configuration, ParameterInventory(configuration, values))
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
    name = path.stem if name_or_path.endswith(".gguf") else name_or_path
    return LoadedModel(
        name,
        model,
        tokenizer,
        refused,
        chat,
        str(source or ""),
        checkpoint.file_bytes,
        time.monotonic() - started,
    )


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
