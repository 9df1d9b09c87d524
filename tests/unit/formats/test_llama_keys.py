from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest
from gguf.constants import GGUFValueType

from unit.formats.llama_samples import BOOL, REAL, STRING, U32, Key, V, write_llama
from zeroulp.model.errors import MalformedFile, ModelRefused, UnsupportedModel
from zeroulp.model.formats.llama import LlamaCheckpoint

REFUSED_KEYS: dict[str, tuple[str, Key | None, str]] = {
    "linear scaling": ("rope.scaling.type", ("linear", STRING), "rope.scaling.type is 'linear'; only 'none'"),
    "yarn scaling": ("rope.scaling.type", ("yarn", STRING), "rope.scaling.type is 'yarn'"),
    "a factor without a type": ("rope.scaling.factor", (2.0, REAL), "rope.scaling.factor is 2.0"),
    "the old factor": ("rope.scale_linear", (4.0, REAL), "rope.scale_linear is 4.0"),
    "experts": ("expert_count", (8, U32), "expert_count is 8; only 0 is served"),
    "part of a head turned": (
        "rope.dimension_count",
        (2, U32),
        "rope.dimension_count is 2; only the head width 4",
    ),
    "wide keys": ("attention.key_length", (8, U32), "attention.key_length is 8"),
    "wide values": ("attention.value_length", (8, U32), "attention.value_length is 8"),
    "not causal": ("attention.causal", (False, BOOL), "attention.causal is False"),
    "an unknown key": ("logit_scale", (0.5, REAL), "'llama.logit_scale' is not known"),
    "no layers": ("block_count", None, "the key llama.block_count is absent"),
    "no width": ("embedding_length", None, "the key llama.embedding_length is absent"),
    "no feed-forward": ("feed_forward_length", None, "the key llama.feed_forward_length is absent"),
    "no heads": ("attention.head_count", None, "the key llama.attention.head_count is absent"),
    "no positions": ("context_length", None, "the key llama.context_length is absent"),
    "no epsilon": ("attention.layer_norm_rms_epsilon", None, "layer_norm_rms_epsilon is absent"),
    "epsilon of another type": (
        "attention.layer_norm_rms_epsilon",
        (1, U32),
        "epsilon is 1; it must be a float",
    ),
    "a base that is not finite": ("rope.freq_base", (float("inf"), REAL), "rope_base is inf"),
    "heads per layer": (
        "attention.head_count",
        ([2, 2], GGUFValueType.ARRAY),
        "a list of 2 values; it must be an",
    ),
    "heads that are a bool": (
        "attention.head_count",
        (True, BOOL),
        "head_count is True; it must be an integer",
    ),
    "heads that do not divide": ("attention.head_count", (3, U32), "must be a multiple of heads"),
    "another vocabulary": (
        "vocab_size",
        (V + 1, U32),
        f"vocab_size is {V + 1}, and the table .* has {V} rows",
    ),
    "no window at all": ("attention.sliding_window", (0, U32), "context_window is 0"),
    "fewer layers": ("block_count", (1, U32), r"the tensor 'blk\.1\.attn_k\.weight' has no place"),
    "more layers": ("block_count", (3, U32), r"the tensor blk\.2\.attn_norm\.weight is missing"),
}


@pytest.mark.parametrize(("key", "value", "message"), REFUSED_KEYS.values(), ids=REFUSED_KEYS.keys())
def test_a_key_that_is_not_served_is_refused_by_name(
    tmp_path: Path, key: str, value: Key | None, message: str
) -> None:
    path = write_llama(tmp_path / "m.gguf", {key: value})
    with pytest.raises(ModelRefused, match=message) as caught:
        LlamaCheckpoint.open(path)
    assert str(caught.value).startswith(f"{path}: ")


def test_another_architecture_is_refused_by_name(tmp_path: Path) -> None:
    path = write_llama(tmp_path / "m.gguf", architecture="gemma")
    with pytest.raises(UnsupportedModel, match=r"general\.architecture is 'gemma'; only 'llama' is served"):
        LlamaCheckpoint.open(path)


def test_a_layer_count_without_tensors_costs_no_memory(tmp_path: Path) -> None:
    path = write_llama(tmp_path / "m.gguf", {"block_count": (2**32 - 1, U32)})
    tracemalloc.start()
    with pytest.raises(MalformedFile, match=r"blk\.2\.attn_norm\.weight is missing"):
        LlamaCheckpoint.open(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**20
