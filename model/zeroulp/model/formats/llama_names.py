"""Parameter names of this project, as the tensors of a llama GGUF file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

TABLE: Final = "token_embd.weight"
OUTPUT: Final = "output.weight"
ROPE_FACTORS: Final = "rope_freqs.weight"

_OF_A_BLOCK: Final = {
    "attention_norm.gain": "attn_norm.weight",
    "attention.query.weight": "attn_q.weight",
    "attention.key.weight": "attn_k.weight",
    "attention.value.weight": "attn_v.weight",
    "attention.output.weight": "attn_output.weight",
    "ffn_norm.gain": "ffn_norm.weight",
    "ffn.gate.weight": "ffn_gate.weight",
    "ffn.up.weight": "ffn_up.weight",
    "ffn.down.weight": "ffn_down.weight",
}


def stored_names(layers: int) -> Iterator[tuple[str, str]]:
    """Yield each parameter's name and its tensor's, in the order of ``parameter_shapes``.

    Lazy, since ``layers`` may be a number that no file could hold the tensors of.
    """
    yield "token_embedding.weight", TABLE
    for layer in range(layers):
        for ours, theirs in _OF_A_BLOCK.items():
            yield f"blocks.{layer}.{ours}", f"blk.{layer}.{theirs}"
    yield "final_norm.gain", "output_norm.weight"
