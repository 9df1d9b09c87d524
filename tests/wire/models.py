"""The models that the wire tests serve."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from zeroulp.model.composition.language_model import LanguageModel
from zeroulp.model.configuration import Configuration
from zeroulp.model.initialisation import initialised
from zeroulp.model.loading import LoadedModel
from zeroulp.model.parameters import ParameterInventory
from zeroulp.model.text import DocumentBpe, Tokenizer

KNOWN_ANSWERS: dict[str, dict[str, Any]] = {
    known["name"]: known
    for known in json.loads((Path(__file__).parents[1] / "data" / "known-answers.json").read_text())
}

SLOW = Configuration(
    vocabulary_size=2048,
    model_width=256,
    heads=4,
    kv_heads=4,
    feed_forward_width=1024,
    layers=4,
    max_positions=4096,
    rope_base=10000.0,
    rms_epsilon=1e-6,
)
"""Takes about a second for a long prompt: long enough to be broken off in the middle of one."""

SHARED = Configuration(
    vocabulary_size=61,
    model_width=16,
    heads=4,
    kv_heads=2,
    feed_forward_width=20,
    layers=3,
    max_positions=192,
    rope_base=10000.0,
    rms_epsilon=1e-6,
)
"""A small model with room for several cache blocks; ids only."""

PROMPT = [(11 * n + n * n) % 61 for n in range(150)]


def seeded(
    name: str, configuration: Configuration, seed: int, tokenizer: Tokenizer | None = None
) -> LoadedModel:
    """Return a seeded model, without a file."""
    values = initialised(configuration, seed)
    model = LanguageModel(configuration, ParameterInventory(configuration, values))
    return LoadedModel(name, model, tokenizer, None, None, "", 0, 0.0)


def known_model(name: str) -> LoadedModel:
    """Return one of the models with known answers."""
    known = KNOWN_ANSWERS[name]
    configuration = Configuration(**known["config"])
    bytes_only = configuration.vocabulary_size == 258
    return seeded(name, configuration, known["init_seed"], DocumentBpe.bytes_only() if bytes_only else None)
