"""A function of the prefix that stands for a model: tokens are bytes, rows are drawn from all of them."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterable, Sequence

from zeroulp.v1 import decoder_pb2 as pb

V = 128
LAYERS = 2
END_TOKEN = 3


def row_after(prefix: Sequence[int]) -> bytes:
    """Return the (V,) f64 row that follows a prefix: no arithmetic, but a function of all of it."""
    draw = random.Random(bytes(prefix))
    # Letters are the likely tokens, so that text looks like text.
    values = [draw.random() + (100.0 if 97 <= token <= 122 else 0.0) for token in range(V)]
    return struct.pack(f"<{V}d", *values)


def greedy_after(prefix: Sequence[int]) -> int:
    values = struct.unpack(f"<{V}d", row_after(prefix))
    return values.index(max(values))


def chat_ids(messages: Iterable[pb.ChatMessage], add_generation_prompt: bool) -> list[int]:
    text = "".join(f"<{turn.role}>{turn.content}\x03" for turn in messages)
    return list((text + ("<assistant>" if add_generation_prompt else "")).encode())


def work(tokens: int) -> pb.Work:
    return pb.Work(token_forwards=tokens, cache_appends=tokens * LAYERS, attention_score_values=10 * tokens)


def logits_after(ids: Sequence[int], lengths: Sequence[int]) -> pb.Logits:
    """Return the rows that follow the prefixes of these lengths, which are consecutive."""
    return pb.Logits(
        first_position=lengths[0] - 1 if lengths else 0,
        rows=len(lengths),
        vocabulary_size=V,
        values=b"".join(row_after(ids[:length]) for length in lengths),
    )
