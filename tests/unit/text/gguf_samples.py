"""Small GGUF vocabularies, complete enough to encode any text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

VISIBLE = [b for b in range(256) if 0x21 <= b <= 0x7E or 0xA1 <= b <= 0xAC or b >= 0xAE]
HIDDEN = [b for b in range(256) if b not in VISIBLE]
LETTER = {b: chr(b) for b in VISIBLE} | {b: chr(256 + n) for n, b in enumerate(HIDDEN)}

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<tool>"]


def byte_level(words: Sequence[str] = (), merges: Sequence[str] = (), **changes: Any) -> dict[str, Any]:
    """Ids: 0 to 3 special, 4 + b for byte b, then ``words``; ``changes`` replace keys by short name."""
    tokens = [*SPECIAL, *(LETTER[byte] for byte in range(256)), *words]
    metadata = {
        "model": "gpt2",
        "pre": "gpt-2",
        "tokens": tokens,
        "token_type": [3, 3, 3, 4] + [1] * (len(tokens) - 4),
        "merges": merges,
        "bos_token_id": 1,
        "eos_token_id": 2,
    }
    return _named(metadata, changes)


def sentencepiece(words: Mapping[str, float], **changes: Any) -> dict[str, Any]:
    """Ids: 0 to 2 are <unk>, <s> and </s>, 3 + b for byte b, 259 is <tool>, then ``words`` with scores."""
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), "<tool>", *words]
    metadata = {
        "model": "llama",
        "tokens": tokens,
        "token_type": [2, 3, 3] + [6] * 256 + [4] + [1] * len(words),
        "scores": [0.0] * 260 + list(words.values()),
        "bos_token_id": 1,
        "eos_token_id": 2,
    }
    return _named(metadata, changes)


def _named(metadata: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    named = {f"tokenizer.ggml.{key}": value for key, value in (metadata | changes).items()}
    return {key: value for key, value in named.items() if value is not None}
