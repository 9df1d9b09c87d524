"""The named stages of a pass in the order in which they are computed. Knows no values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from zeroulp.model.configuration import Configuration
from zeroulp.model.errors import InvalidArgument


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage as an observer sees it, the name of its snapshots, and the features of one of its rows."""

    layer: int | None
    stage: str
    name: str
    features: int


def stages_of(configuration: Configuration) -> tuple[Stage, ...]:
    """Return all stages: ``embed``, ``blocks.N.<stage>``, ``final_norm``, ``logits``."""
    c = configuration
    blocks = [
        Stage(layer, stage, f"blocks.{layer}.{stage}", features)
        for layer in range(c.layers)
        for stage, features in block_stages(c).items()
    ]
    return (
        Stage(None, "embedding", "embed", c.model_width),
        *blocks,
        Stage(None, "final_norm", "final_norm", c.model_width),
        Stage(None, "logits", "logits", c.vocabulary_size),
    )


def block_stages(configuration: Configuration) -> dict[str, int]:
    """Return the stages of one block with their features, in order."""
    D, K, F = configuration.model_width, configuration.kv_width, configuration.feed_forward_width
    return {
        "attention_norm": D,
        "query": D,
        "key": K,
        "value": K,
        "query_rope": D,
        "key_rope": K,
        "attention": D,
        "attention_output": D,
        "attention_residual": D,
        "ffn_norm": D,
        "gate": F,
        "up": F,
        "swiglu": F,
        "down": D,
        "ffn_residual": D,
    }


def selected(stages: Sequence[Stage], patterns: Sequence[str], *, field: str) -> tuple[Stage, ...]:
    """Return the stages whose names match one of the patterns, all of them if there is no pattern.

    Patterns are those of file names (``*``, ``?``, ``[...]``), and ``*`` matches dots too. Raises
    ``InvalidArgument`` for a pattern that matches no stage.
    """
    if not patterns:
        return tuple(stages)
    matched: set[str] = set()
    for index, pattern in enumerate(patterns):
        names = {stage.name for stage in stages if fnmatchcase(stage.name, pattern)}
        if not names:
            block = next(stage.name for stage in stages if stage.layer is not None)
            raise InvalidArgument(
                f"{field}[{index}] is {pattern!r}, which matches no tensor; "
                f"their names are like embed, {block}, final_norm and logits",
                field=f"{field}[{index}]",
            )
        matched |= names
    return tuple(stage for stage in stages if stage.name in matched)
