"""Exact counters of the work that a call or a session has cost."""

from __future__ import annotations

from dataclasses import dataclass

from zeroulp.v1 import decoder_pb2


@dataclass(frozen=True, slots=True)
class Work:
    """Counts, each below 2**64."""

    token_forwards: int
    prefill_tokens: int
    decode_tokens: int
    cache_appends: int
    """Layers per token."""
    qkv_projection_rows: int
    """Three per layer and token."""
    attention_score_values: int
    """Visible keys per query, times heads, times layers."""
    reused_tokens: int
    """Tokens whose rows another session's prefix supplied; no other counter counts them."""


def work_of(message: decoder_pb2.Work) -> Work:
    """Return what a message holds."""
    return Work(
        token_forwards=message.token_forwards,
        prefill_tokens=message.prefill_tokens,
        decode_tokens=message.decode_tokens,
        cache_appends=message.cache_appends,
        qkv_projection_rows=message.qkv_projection_rows,
        attention_score_values=message.attention_score_values,
        reused_tokens=message.reused_tokens,
    )
