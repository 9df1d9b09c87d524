from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from gguf.constants import GGMLQuantizationType
from numpy.typing import NDArray

from unit.formats.llama_samples import (
    HEADS,
    KV_HEADS,
    LAYERS,
    REAL,
    STRING,
    U32,
    D,
    F,
    Key,
    V,
    llama_tensors,
    write_llama,
)
from zeroulp.model.configuration import Configuration
from zeroulp.model.errors import MalformedFile, ModelRefused, UnsupportedModel
from zeroulp.model.formats.gguf_file import GgufFile
from zeroulp.model.formats.llama import LlamaCheckpoint

TABLE = llama_tensors()["token_embd.weight"]


def test_configuration_comes_from_the_keys_and_the_table(tmp_path: Path) -> None:
    keys: dict[str, Key | None] = {
        "attention.sliding_window": (5, U32),
        "rope.freq_base": (5e5, REAL),
        "vocab_size": (V, U32),
        "rope.dimension_count": (D // HEADS, U32),
        "attention.key_length": (D // HEADS, U32),
        "attention.value_length": (D // HEADS, U32),
        "rope.scaling.type": ("none", STRING),
        "rope.scaling.factor": (1.0, REAL),
        "expert_count": (0, U32),
    }
    checkpoint = LlamaCheckpoint.open(write_llama(tmp_path / "m.gguf", keys))
    assert checkpoint.configuration == Configuration(
        vocabulary_size=V,
        model_width=D,
        heads=HEADS,
        kv_heads=KV_HEADS,
        feed_forward_width=F,
        layers=LAYERS,
        max_positions=16,
        rope_base=5e5,
        rms_epsilon=float(np.float32(1e-5)),
        context_window=5,
    )
    assert checkpoint.metadata["general.architecture"] == "llama"
    assert checkpoint.file_bytes == (tmp_path / "m.gguf").stat().st_size
    assert checkpoint.storage_types == {"F32": 2 + 9 * LAYERS}


def test_absent_keys_have_the_formats_defaults(tmp_path: Path) -> None:
    tensors = {
        f"blk.{layer}.attn_{part}.weight": np.zeros((D, D), np.float32) for layer in (0, 1) for part in "kv"
    }
    path = write_llama(tmp_path / "m.gguf", {"attention.head_count_kv": None}, tensors)
    configuration = LlamaCheckpoint.open(path).configuration
    assert configuration.kv_heads == HEADS
    assert configuration.rope_base == 10000.0
    assert configuration.context_window is None


def test_parameters_are_in_our_names_order_and_orientation(tmp_path: Path) -> None:
    checkpoint = LlamaCheckpoint.open(write_llama(tmp_path / "m.gguf"))
    stored = llama_tensors()
    parameters = dict(checkpoint.parameters())
    shapes = checkpoint.configuration.parameter_shapes()
    assert list(parameters) == list(shapes)
    assert {name: values.shape for name, values in parameters.items()} == shapes
    expected = {
        "token_embedding.weight": stored["token_embd.weight"],
        "blocks.0.attention_norm.gain": stored["blk.0.attn_norm.weight"],
        "blocks.0.attention.query.weight": stored["blk.0.attn_q.weight"].T,
        "blocks.1.attention.key.weight": stored["blk.1.attn_k.weight"].T,
        "blocks.1.attention.value.weight": stored["blk.1.attn_v.weight"].T,
        "blocks.0.attention.output.weight": stored["blk.0.attn_output.weight"].T,
        "blocks.1.ffn_norm.gain": stored["blk.1.ffn_norm.weight"],
        "blocks.0.ffn.gate.weight": stored["blk.0.ffn_gate.weight"].T,
        "blocks.1.ffn.up.weight": stored["blk.1.ffn_up.weight"].T,
        "blocks.0.ffn.down.weight": stored["blk.0.ffn_down.weight"].T,
        "final_norm.gain": stored["output_norm.weight"],
    }
    for name, values in expected.items():
        assert parameters[name].tobytes() == values.tobytes()
        assert checkpoint.tensor(name).tobytes() == values.tobytes()
    # The transposed view, not a copy: the file's rows stay contiguous.
    assert parameters["blocks.0.ffn.down.weight"].T.flags.c_contiguous


def test_stored_blocks_and_types_are_reachable_by_our_names(tmp_path: Path) -> None:
    half = llama_tensors()["blk.0.ffn_up.weight"].astype(np.float16)
    checkpoint = LlamaCheckpoint.open(write_llama(tmp_path / "m.gguf", tensors={"blk.0.ffn_up.weight": half}))
    assert checkpoint.storage_type("blocks.0.ffn.up.weight") == "F16"
    assert checkpoint.raw("blocks.0.ffn.up.weight").shape == (F, 2 * D)
    assert checkpoint.raw("blocks.0.ffn.up.weight").tobytes() == half.tobytes()
    assert checkpoint.tensor("blocks.0.ffn.up.weight").tobytes() == half.astype(np.float32).T.tobytes()
    assert checkpoint.storage_types == {"F32": 1 + 9 * LAYERS, "F16": 1}
    with pytest.raises(KeyError):
        checkpoint.tensor("token_embd.weight")


def test_values_that_are_not_finite_are_read_as_they_are(tmp_path: Path) -> None:
    values = np.array([np.nan, np.inf, -np.inf, -0.0] * 2, np.float32)
    checkpoint = LlamaCheckpoint.open(
        write_llama(tmp_path / "m.gguf", tensors={"output_norm.weight": values})
    )
    assert checkpoint.tensor("final_norm.gain").tobytes() == values.tobytes()


NAN_TABLE = np.where(np.arange(V * D).reshape(V, D) == 3, np.float32(np.nan), TABLE)
HALF_TABLE = TABLE.astype(np.float16)
TIED = {
    "the same bytes": (TABLE, TABLE),
    "the same bytes with a NaN": (NAN_TABLE, NAN_TABLE),
    "the same values of another type": (HALF_TABLE.astype(np.float32), HALF_TABLE),
    "the same values in float64": (TABLE, TABLE.astype(np.float64)),
}


@pytest.mark.parametrize(("table", "output"), TIED.values(), ids=TIED.keys())
def test_an_output_matrix_equal_to_the_table_is_tied(
    tmp_path: Path, table: NDArray[np.generic], output: NDArray[np.generic]
) -> None:
    tensors = {"token_embd.weight": table, "output.weight": output}
    checkpoint = LlamaCheckpoint.open(write_llama(tmp_path / "m.gguf", tensors=tensors))
    assert list(dict(checkpoint.parameters())) == list(checkpoint.configuration.parameter_shapes())


@pytest.mark.parametrize("rows_compared", [1, 2, 256])
def test_an_output_matrix_that_differs_in_one_bit_is_refused_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows_compared: int
) -> None:
    monkeypatch.setattr("zeroulp.model.formats.llama._ROWS_COMPARED", rows_compared)
    for row in range(V):
        output = TABLE.copy()
        output.view(np.uint32)[row, D - 1] ^= 1
        path = write_llama(tmp_path / "m.gguf", tensors={"output.weight": output})
        with pytest.raises(UnsupportedModel, match=r"output\.weight differs .*untied models are not served"):
            LlamaCheckpoint.open(path)


def test_an_output_matrix_that_rounds_to_the_table_is_refused(tmp_path: Path) -> None:
    path = write_llama(tmp_path / "m.gguf", tensors={"output.weight": TABLE.astype(np.float16)})
    with pytest.raises(UnsupportedModel, match=r"output\.weight differs"):
        LlamaCheckpoint.open(path)


def test_the_tables_bytes_read_as_another_type_are_another_matrix(tmp_path: Path) -> None:
    tensors: dict[str, NDArray[np.generic]] = {
        "token_embd.weight": HALF_TABLE,
        "output.weight": HALF_TABLE.view(np.uint8),
    }
    types = {"output.weight": GGMLQuantizationType.BF16}
    path = write_llama(tmp_path / "m.gguf", tensors=tensors, types=types)
    with pytest.raises(UnsupportedModel, match=r"output\.weight differs"):
        LlamaCheckpoint.open(path)


def test_rope_factors_of_one_are_accepted_and_others_refused_by_name(tmp_path: Path) -> None:
    factors = np.ones(D // HEADS // 2, np.float32)
    LlamaCheckpoint.open(write_llama(tmp_path / "m.gguf", tensors={"rope_freqs.weight": factors}))
    for other in (np.nextafter(np.float32(1), np.float32(2)), np.float32(np.nan)):
        factors[-1] = other
        path = write_llama(tmp_path / "m.gguf", tensors={"rope_freqs.weight": factors})
        with pytest.raises(UnsupportedModel, match=r"rope_freqs\.weight"):
            LlamaCheckpoint.open(path)


@pytest.mark.parametrize("name", llama_tensors())
def test_a_missing_or_misshapen_tensor_is_refused_by_name(tmp_path: Path, name: str) -> None:
    with pytest.raises(MalformedFile, match=re.escape(f"the tensor {name} is missing")):
        LlamaCheckpoint.open(write_llama(tmp_path / "missing.gguf", tensors={name: None}))
    stored = llama_tensors()[name]
    for values in (np.zeros((*stored.shape[:-1], stored.shape[-1] + 1), np.float32), stored[None]):
        with pytest.raises(ModelRefused, match=re.escape(f"{name} has shape {list(values.shape)}")):
            LlamaCheckpoint.open(write_llama(tmp_path / "shape.gguf", tensors={name: values}))


def test_a_transposed_matrix_is_refused(tmp_path: Path) -> None:
    name = "blk.1.ffn_down.weight"
    path = write_llama(tmp_path / "m.gguf", tensors={name: llama_tensors()[name].T.copy()})
    with pytest.raises(
        MalformedFile, match=re.escape(f"{name} has shape [{F}, {D}]; the configuration asks")
    ):
        LlamaCheckpoint.open(path)


@pytest.mark.parametrize(
    "name",
    ["blk.0.attn_q.bias", "blk.1.ffn_down.bias", "blk.2.attn_q.weight", "blk.0.ffn_gate_inp.weight", "x"],
)
def test_a_tensor_without_a_place_is_refused_by_name(tmp_path: Path, name: str) -> None:
    path = write_llama(tmp_path / "m.gguf", tensors={name: np.zeros(D, np.float32)})
    with pytest.raises(UnsupportedModel, match=re.escape(f"the tensor '{name}' has no place")):
        LlamaCheckpoint.open(path)


def test_a_type_without_numbers_is_refused_at_open(tmp_path: Path) -> None:
    path = write_llama(
        tmp_path / "m.gguf",
        tensors={"output_norm.weight": np.zeros(D, np.int32)},
        types={"output_norm.weight": GGMLQuantizationType.I32},
    )
    with pytest.raises(UnsupportedModel, match=r"'output_norm\.weight' is stored as I32"):
        LlamaCheckpoint.open(path)


def test_opening_reads_no_tensors_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise AssertionError("a tensor was read")

    monkeypatch.setattr(GgufFile, "read", fail)
    monkeypatch.setattr(GgufFile, "raw", fail)
    LlamaCheckpoint.open(write_llama(tmp_path / "m.gguf"))


@pytest.mark.real_model
def test_the_real_model(real_model_path: Path) -> None:
    checkpoint = LlamaCheckpoint.open(real_model_path)
    assert checkpoint.configuration == Configuration(
        vocabulary_size=49152,
        model_width=576,
        heads=9,
        kv_heads=3,
        feed_forward_width=1536,
        layers=30,
        max_positions=8192,
        rope_base=100000.0,
        rms_epsilon=float(np.float32(1e-5)),
    )
    assert checkpoint.storage_types == {"Q8_0": 1, "F32": 61, "Q4_1": 210}
    assert checkpoint.file_bytes == 98362432
    assert sum(values.size for _, values in checkpoint.parameters()) == 134515008
