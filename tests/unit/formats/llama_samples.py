"""Tiny tied llama checkpoints in GGUF, with any key or tensor replaced."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from gguf import GGUFWriter
from gguf.constants import GGMLQuantizationType, GGUFValueType
from numpy.typing import NDArray

from unit.formats.gguf_samples import finish

V, D, HEADS, KV_HEADS, F, LAYERS = 7, 8, 2, 1, 6, 2

Key = tuple[object, GGUFValueType]

U32, REAL, BOOL, STRING = (
    GGUFValueType.UINT32,
    GGUFValueType.FLOAT32,
    GGUFValueType.BOOL,
    GGUFValueType.STRING,
)


def llama_keys() -> dict[str, Key]:
    return {
        "block_count": (LAYERS, U32),
        "context_length": (16, U32),
        "embedding_length": (D, U32),
        "feed_forward_length": (F, U32),
        "attention.head_count": (HEADS, U32),
        "attention.head_count_kv": (KV_HEADS, U32),
        "attention.layer_norm_rms_epsilon": (1e-5, REAL),
    }


def llama_tensors() -> dict[str, NDArray[np.float32]]:
    """Return tensors in the file's shapes ``[out, in]``, every value different."""
    kv = D // HEADS * KV_HEADS
    shapes: dict[str, tuple[int, ...]] = {"token_embd.weight": (V, D), "output_norm.weight": (D,)}
    for layer in range(LAYERS):
        shapes |= {
            f"blk.{layer}.attn_norm.weight": (D,),
            f"blk.{layer}.attn_q.weight": (D, D),
            f"blk.{layer}.attn_k.weight": (kv, D),
            f"blk.{layer}.attn_v.weight": (kv, D),
            f"blk.{layer}.attn_output.weight": (D, D),
            f"blk.{layer}.ffn_norm.weight": (D,),
            f"blk.{layer}.ffn_gate.weight": (F, D),
            f"blk.{layer}.ffn_up.weight": (F, D),
            f"blk.{layer}.ffn_down.weight": (D, F),
        }
    generator = np.random.default_rng(1)
    return {name: generator.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}


def write_llama(
    path: Path,
    keys: Mapping[str, Key | None] | None = None,
    tensors: Mapping[str, NDArray[np.generic] | None] | None = None,
    types: Mapping[str, GGMLQuantizationType] | None = None,
    architecture: str = "llama",
) -> Path:
    """Write the tiny model with keys and tensors replaced, added or (None) left out."""
    writer = GGUFWriter(path, architecture)
    for key, pair in (llama_keys() | dict(keys or {})).items():
        if pair is not None:
            writer.add_key_value(f"llama.{key}", *pair)
    everything: dict[str, NDArray[np.generic] | None] = {**llama_tensors(), **(tensors or {})}
    for name, values in everything.items():
        if values is not None:
            writer.add_tensor(name, values, raw_dtype=(types or {}).get(name))
    finish(writer)
    return path
