"""What is saved comes back with the same bits, and as one node for the tied table."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from unit.formats.safetensors_samples import (
    TINY,
    TOKENIZER,
    any_values,
    configurations,
    parts_of,
    write_tiny,
)
from unit.text.gguf_samples import byte_level
from zeroulp.model.configuration import Configuration
from zeroulp.model.errors import MalformedFile, UnsupportedModel
from zeroulp.model.formats.safetensors import SafetensorsCheckpoint, save_model
from zeroulp.model.initialisation import initialised
from zeroulp.model.loading import load
from zeroulp.model.packing import PackedMatrix
from zeroulp.model.parameters import TABLE, ParameterInventory
from zeroulp.model.quantised import pack_blocks
from zeroulp.model.text import DocumentBpe, Tokenizer
from zeroulp.model.text.gguf_bpe import GgufBpe

# One path is overwritten by every example, and examples do not depend on each other.
shared = settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])


@shared
@given(configuration=configurations(), seed=st.integers(0, 2**32))
def test_every_bit_comes_back(tmp_path: Path, configuration: Configuration, seed: int) -> None:
    path = tmp_path / "any.safetensors"
    values = any_values(configuration, seed)
    save_model(path, configuration, ParameterInventory(configuration, values.items()))
    loaded = load(str(path))
    assert loaded.model.configuration == configuration
    assert list(loaded.model.parameters) == list(configuration.parameter_shapes())
    for name, node in loaded.model.parameters.items():
        assert node.values().tobytes() == values[name].tobytes(), name
    assert loaded.model.table is loaded.model.head.table is loaded.model.parameters[TABLE]


@shared
@given(seed=st.integers(0, 2**32))
def test_another_reader_finds_the_same(tmp_path: Path, seed: int) -> None:
    path = tmp_path / "any.safetensors"
    values = any_values(TINY, seed)
    save_model(path, TINY, ParameterInventory(TINY, values.items()))
    found = safetensors.numpy.load_file(path)
    assert found.keys() == values.keys()  # the tied table is one tensor
    for name, array in found.items():
        assert array.dtype in (np.float32, np.float64)
        assert array.astype(np.float64).tobytes() == values[name].tobytes()


def test_storage_is_the_narrower_of_two_that_is_exact(tmp_path: Path) -> None:
    values = dict(initialised(TINY, 1))
    values["final_norm.gain"] = np.array([0.1, 1.0])
    values["blocks.0.ffn.up.weight"] = np.array([[-0.0], [2.0**-149]])
    path = tmp_path / "model.safetensors"
    save_model(path, TINY, ParameterInventory(TINY, values.items()))
    stored = {name: entry["dtype"] for name, entry in parts_of(path)[0].items() if name != "__metadata__"}
    assert stored["final_norm.gain"] == "F64"
    assert stored["blocks.0.ffn.up.weight"] == "F32"
    assert stored["blocks.0.attention_norm.gain"] == "F32"


def test_the_text_side_comes_back(tmp_path: Path) -> None:
    loaded = load(str(write_tiny(tmp_path / "model.safetensors")))
    assert loaded.name == "model"
    assert isinstance(loaded.tokenizer, DocumentBpe)
    assert loaded.tokenizer.merges == TOKENIZER.merges == ((99, 100),)
    assert loaded.tokenizer.encode_document("ab") == [0, 258, 1]
    assert loaded.file_bytes == (tmp_path / "model.safetensors").stat().st_size
    assert (loaded.text_refused, loaded.chat, loaded.chat_source) == (None, None, "")


@pytest.mark.parametrize("name", ["boundary-39", "glass-default"])
def test_built_in_models_come_back_whole(tmp_path: Path, name: str) -> None:
    built_in = load(name)
    path = tmp_path / "copy.safetensors"
    save_model(path, built_in.model.configuration, built_in.model.parameters, built_in.tokenizer)
    loaded = load(str(path))
    assert loaded.model.parameters.digest() == built_in.model.parameters.digest()
    assert loaded.text_digest == built_in.text_digest != ""
    assert (loaded.name, loaded.source) == ("copy", str(path))


def test_a_model_without_text(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    save_model(path, TINY, ParameterInventory(TINY, initialised(TINY, 1)))
    loaded = load(str(path))
    assert (loaded.tokenizer, loaded.text_refused, loaded.text_digest) == (None, None, "")


def test_quantised_parameters_are_saved_as_their_values(tmp_path: Path) -> None:
    configuration = Configuration(5, 32, 1, 1, 32, 1, 4, 10000.0, 1e-6)
    blocks = np.random.default_rng(3).integers(0, 60, (32, 34), np.uint8)  # scales are finite
    values: dict[str, object] = dict(initialised(configuration, 1))
    packed = pack_blocks("Q8_0", blocks, 32)
    values["blocks.0.ffn.up.weight"] = packed
    nodes = ParameterInventory(configuration, values.items())  # type: ignore[arg-type]
    save_model(tmp_path / "model.safetensors", configuration, nodes)
    loaded = load(str(tmp_path / "model.safetensors")).model.parameters
    stored = loaded["blocks.0.ffn.up.weight"].stored
    assert isinstance(stored, PackedMatrix)
    assert stored.unpack().tobytes() == packed.unpack().tobytes()
    assert loaded.digest() == nodes.digest()


@pytest.mark.parametrize("tokenizer", [DocumentBpe.bytes_only(), DocumentBpe.glass_default()])
def test_a_tokenizer_of_another_size_is_not_saved(tmp_path: Path, tokenizer: Tokenizer) -> None:
    nodes = ParameterInventory(TINY, initialised(TINY, 1))
    with pytest.raises(UnsupportedModel, match=r"the tokenizer has \d+ ids; .* 259"):
        save_model(tmp_path / "model.safetensors", TINY, nodes, tokenizer)
    assert list(tmp_path.iterdir()) == []


def test_a_tokenizer_without_a_stored_form_is_not_saved(tmp_path: Path) -> None:
    nodes = ParameterInventory(TINY, initialised(TINY, 1))
    with pytest.raises(UnsupportedModel, match=r"of kind gguf-bpe has no form .*; document-bpe has"):
        save_model(tmp_path / "model.safetensors", TINY, nodes, GgufBpe(byte_level()))
    assert list(tmp_path.iterdir()) == []


def test_parameters_of_another_configuration_are_not_saved(tmp_path: Path) -> None:
    other = Configuration(259, 4, 1, 1, 1, 1, 4, 10000.0, 1e-6)
    nodes = ParameterInventory(other, initialised(other, 1))
    with pytest.raises(UnsupportedModel, match="asks for"):
        save_model(tmp_path / "model.safetensors", TINY, nodes)


def test_a_save_that_fails_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_tiny(tmp_path / "model.safetensors")
    before = path.read_bytes()

    def half(tensors: object, part: Path, metadata: object) -> None:
        part.write_bytes(before[:20])
        raise safetensors.SafetensorError("no space")

    monkeypatch.setattr("zeroulp.model.formats.safetensors.writer.save_file", half)
    with pytest.raises(OSError, match="no space"):
        write_tiny(path, seed=2)
    assert (list(tmp_path.iterdir()), path.read_bytes()) == ([path], before)


def test_a_saved_file_has_the_usual_permissions(tmp_path: Path) -> None:
    usual = tmp_path / "usual"
    usual.touch()
    path = write_tiny(tmp_path / "model.safetensors")
    write_tiny(path, seed=2)
    assert path.stat().st_mode == usual.stat().st_mode


def test_saving_twice_gives_the_same_bytes(tmp_path: Path) -> None:
    first, second = write_tiny(tmp_path / "a.safetensors"), write_tiny(tmp_path / "b.safetensors")
    assert parts_of(first)[1] == parts_of(second)[1]
    assert load(str(first)).model.parameters.digest() == load(str(second)).model.parameters.digest()


def test_the_metadata_is_what_the_package_says(tmp_path: Path) -> None:
    metadata = parts_of(write_tiny(tmp_path / "model.safetensors"))[0]["__metadata__"]
    assert (metadata["format"], metadata["format_version"]) == ("zeroulp", "1")
    assert json.loads(metadata["configuration"])["context_window"] is None
    assert json.loads(metadata["tokenizer"]) == {"kind": "document-bpe", "merges": [[99, 100]]}
    assert metadata.keys() == {"format", "format_version", "configuration", "tokenizer"}


def test_a_file_cut_short_while_it_is_open_is_malformed(tmp_path: Path) -> None:
    path = write_tiny(tmp_path / "model.safetensors")
    with SafetensorsCheckpoint.open(path) as checkpoint:
        path.write_bytes(path.read_bytes()[:-8])
        with pytest.raises(MalformedFile, match="the file was cut short"):
            list(checkpoint.parameters())
