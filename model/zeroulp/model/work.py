"""Exact counters of the work that a call or a session has done."""

from __future__ import annotations

from dataclasses import dataclass, fields

from zeroulp.model.configuration import Configuration

COUNTER_LIMIT = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class Work:
    """Counts since the start of the call or session; a count past 64 bits is an error, not a wrap."""

    token_forwards: int = 0
    prefill_tokens: int = 0
    decode_tokens: int = 0
    cache_appends: int = 0
    """Layers per token."""
    qkv_projection_rows: int = 0
    """Three per layer and token."""
    attention_score_values: int = 0
    """Visible keys per query, times heads, times layers."""
    reused_tokens: int = 0

    def __post_init__(self) -> None:
        for field in fields(self):
            if getattr(self, field.name) > COUNTER_LIMIT:
                raise OverflowError(f"counter {field.name} is past {COUNTER_LIMIT}")

    def __add__(self, other: Work) -> Work:
        return Work(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))


def work_of(
    configuration: Configuration, first: int, count: int, *, prefill: bool, cached: bool = True
) -> Work:
    """Return the work of ``count`` tokens from position ``first`` in all layers.

    ``cached`` tells whether rows are appended to a session's cache; a full forward appends none.
    """
    visible = sum(t + 1 - configuration.first_visible(t) for t in range(first, first + count))
    return Work(
        token_forwards=count,
        prefill_tokens=count if prefill and cached else 0,
        decode_tokens=0 if prefill or not cached else count,
        cache_appends=count * configuration.layers if cached else 0,
        qkv_projection_rows=3 * count * configuration.layers,
        attention_score_values=visible * configuration.heads * configuration.layers,
    )
