"""Loading gives the model that the name or file says, with its text side or without."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from unit.formats.llama_samples import llama_tensors, write_llama
from unit.model import models
from zeroulp.model import loading
from zeroulp.model.compute_team import ComputeTeam
from zeroulp.model.context import NoGrad
from zeroulp.model.errors import MalformedFile, UnknownModel, UnsupportedModel
from zeroulp.model.formats.llama import LlamaCheckpoint
from zeroulp.model.full_forward import full_forward
from zeroulp.model.library.catalogue import BUILT_IN
from zeroulp.model.loading import LoadedModel, load
from zeroulp.model.parameters import TABLE


@pytest.mark.parametrize(
    ("name", "count", "kind"), [("boundary-39", 1372, "bytes"), ("glass-default", 852_608, "glass")]
)
def test_built_in(name: str, count: int, kind: str) -> None:
    told: list[tuple[int, int]] = []
    loaded = load(name, lambda done, total: told.append((done, total)))
    built_in = BUILT_IN[name]
    assert loaded.name == name
    assert loaded.model.configuration == built_in.configuration
    assert loaded.model.parameters.count == count
    want = models.seeded(built_in.configuration, built_in.seed).parameters
    assert loaded.model.parameters.digest() == want.digest()
    assert loaded.tokenizer is not None
    assert (loaded.text_refused, loaded.chat, loaded.chat_source, loaded.file_bytes) == (None, None, "", 0)
    tensors = len(built_in.configuration.parameter_shapes())
    assert told == [(done, tensors) for done in range(1, tensors + 1)]
    assert loaded.seconds > 0.0
    ids = loaded.tokenizer.encode_document("ab")
    assert max(ids) < built_in.configuration.vocabulary_size
    if kind == "bytes":
        assert list(ids) == [0, 99, 100, 1]


def test_unknown_names_and_files(tmp_path: Path) -> None:
    with pytest.raises(UnknownModel, match="boundary-39"):
        load("no-such-model")
    with pytest.raises(UnknownModel):
        load(str(tmp_path / "none.gguf"))
    (tmp_path / "bad.gguf").write_bytes(b"GGUF")
    with pytest.raises(MalformedFile):
        load(str(tmp_path / "bad.gguf"))


def test_a_file_whose_text_side_is_not_supported_serves_ids_only(tmp_path: Path, context: NoGrad) -> None:
    loaded = load(str(write_llama(tmp_path / "tiny.gguf")))  # no tokenizer keys at all
    assert loaded.name == "tiny"
    assert (loaded.tokenizer, loaded.chat, loaded.chat_source) == (None, None, "")
    assert loaded.text_refused
    assert loaded.file_bytes == (tmp_path / "tiny.gguf").stat().st_size
    table = llama_tensors()["token_embd.weight"].astype(np.float64)
    assert loaded.model.parameters["token_embedding.weight"].values().tobytes() == table.tobytes()
    assert full_forward(loaded.model, context, [0, 6, 3]).shape == (3, 7)


def test_the_reason_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(metadata: object) -> None:
        raise UnsupportedModel("tokenizer.ggml.model is 'martian'")

    path = write_llama(tmp_path / "tiny.gguf")
    monkeypatch.setattr(loading, "tokenizer_from_gguf", refuse)
    assert load(str(path)).text_refused == "tokenizer.ggml.model is 'martian'"


def test_an_error_that_is_not_about_the_model_is_not_hidden(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(metadata: object) -> None:
        raise ZeroDivisionError

    path = write_llama(tmp_path / "tiny.gguf")
    monkeypatch.setattr(loading, "tokenizer_from_gguf", fail)
    with pytest.raises(ZeroDivisionError):
        load(str(path))


@pytest.fixture(scope="module")
def real_model(real_model_path: Path) -> LoadedModel:
    return load("smollm2-135m")


@pytest.mark.real_model
def test_the_real_model(real_model: LoadedModel, real_model_path: Path) -> None:
    c, parameters = real_model.model.configuration, real_model.model.parameters
    assert (c.vocabulary_size, c.model_width, c.heads, c.kv_heads) == (49152, 576, 9, 3)
    assert (c.feed_forward_width, c.layers, c.max_positions) == (1536, 30, 8192)
    assert (c.rope_base, c.context_window) == (100000.0, None)
    assert c.rms_epsilon == float(np.float32(1e-5))
    assert parameters.count == 134_515_008 == sum(math.prod(s) for s in c.parameter_shapes().values())
    assert real_model.tokenizer is not None
    assert real_model.chat is not None
    assert real_model.text_refused is None
    assert real_model.file_bytes == real_model_path.stat().st_size
    assert real_model.name == "smollm2-135m"


@pytest.mark.real_model
def test_the_real_model_is_kept_in_the_files_blocks(real_model: LoadedModel) -> None:
    nodes = real_model.model.parameters
    storage = {node.name: node.matrix.storage for node in nodes.values() if len(node.shape) == 2}
    assert storage.pop(TABLE) == "q8_0"
    assert set(storage.values()) == {"q4_1"}
    # f32 scales: 36 bytes for 32 weights of the table, 24 of the others; gains in f64
    table, gains = math.prod(nodes[TABLE].shape), 61 * 576
    assert (
        nodes.nbytes == table * 36 // 32 + (nodes.count - table - gains) * 24 // 32 + gains * 8 == 111_757_824
    )


@pytest.mark.real_model
def test_the_real_models_values_are_the_files(real_model: LoadedModel, real_model_path: Path) -> None:
    checkpoint = LlamaCheckpoint.open(real_model_path)
    for name in real_model.model.parameters:
        if name.startswith(("blocks.0.", "blocks.29.", "token", "final")):
            values = real_model.model.parameters[name].values()
            assert values.tobytes() == checkpoint.tensor(name).astype(np.float64).tobytes(), name


@pytest.mark.real_model
def test_the_real_model_computed_in_every_way(real_model: LoadedModel, teams: dict[int, ComputeTeam]) -> None:
    model, ids = real_model.model, [1, 9690, 198, 2683, 359, 253, 5356, 5646, 11173, 31]
    with teams[2].awake():
        two = NoGrad(teams[2])
        want = full_forward(model, two, ids)
        assert models.by_single_tokens(model, two, ids[:3]).tobytes() == want[:3].tobytes()
        assert models.by_calls(model, two, ids, [9]).tobytes() == want.tobytes()
    assert full_forward(model, NoGrad(teams[1]), ids[:2]).tobytes() == want[:2].tobytes()
