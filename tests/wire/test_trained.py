"""What was trained is saved, loaded and served: the same bits at every station."""

from __future__ import annotations

from pathlib import Path

import grpc
import pytest

from wire.calls import GREEDY, close, decode, failure, generate, prefill, rows, score_rows
from wire.daemons import daemon
from wire.serving import serving
from zeroulp.model.composition.targets import Targets
from zeroulp.model.composition.text_batch import TextBatch
from zeroulp.model.compute_team import ComputeTeam
from zeroulp.model.context import NoGrad
from zeroulp.model.formats.safetensors import SafetensorsCheckpoint, save_model
from zeroulp.model.full_forward import full_forward
from zeroulp.model.loading import LoadedModel, load
from zeroulp.model.recording import Recording
from zeroulp.model.text import DocumentBpe
from zeroulp.model.training import AdamW, train_step
from zeroulp.v1 import decoder_pb2 as pb

TEXTS = {"boundary-39": "ab", "glass-default": "Haste makes waste."}
STEPS = {"boundary-39": 3, "glass-default": 20}


def document(loaded: LoadedModel) -> list[int]:
    assert isinstance(loaded.tokenizer, DocumentBpe)
    return loaded.tokenizer.encode_document(TEXTS[loaded.name])


def train(loaded: LoadedModel, steps: int) -> None:
    batch = TextBatch.of([document(loaded)])
    optimizer = AdamW(loaded.model.parameters.values(), 0.003)
    for _ in range(steps):
        train_step(loaded.model, Recording(ComputeTeam()), batch, Targets.next_tokens(batch), optimizer)


def saved(trained: LoadedModel, folder: Path) -> Path:
    path = folder / "trained.safetensors"
    save_model(path, trained.model.configuration, trained.model.parameters, trained.tokenizer)
    return path


@pytest.fixture(scope="module", params=TEXTS)
def trained(request: pytest.FixtureRequest) -> LoadedModel:
    loaded = load(request.param)
    train(loaded, STEPS[request.param])
    return loaded


def test_a_trained_model_comes_back_from_its_file_and_is_served(trained: LoadedModel, tmp_path: Path) -> None:
    path = saved(trained, tmp_path)
    loaded = load(str(path))
    assert loaded.model.parameters.digest() == trained.model.parameters.digest()
    assert loaded.model.parameters.digest() != load(trained.name).model.parameters.digest()
    ids = document(trained)
    want = [row.tobytes() for row in full_forward(trained.model, NoGrad(ComputeTeam()), ids)]
    with serving(loaded) as served:
        assert score_rows(served.stub, ids) == want
        opened = prefill(served.stub, ids[:-1], pb.LOGITS_SCOPE_ALL)
        decoded = decode(served.stub, opened.session_id, ids[-1:])
        assert rows(opened.logits) + rows(decoded.logits) == want


def test_the_tied_table_is_one_tensor_in_the_file_and_one_node_in_memory(
    trained: LoadedModel, tmp_path: Path
) -> None:
    path = saved(trained, tmp_path)
    with SafetensorsCheckpoint.open(path) as checkpoint:
        shapes = {name: values.shape for name, values in checkpoint.parameters()}
    assert shapes == trained.model.configuration.parameter_shapes()
    V = trained.model.configuration.vocabulary_size
    assert [name for name, shape in shapes.items() if V in shape] == ["token_embedding.weight"]
    loaded = load(str(path))
    assert loaded.model.head.table is loaded.model.table is loaded.model.parameters["token_embedding.weight"]
    before = loaded.model.table.revision
    optimizer = AdamW([loaded.model.table], 0.003)
    batch = TextBatch.of([document(trained)])
    train_step(loaded.model, Recording(ComputeTeam()), batch, Targets.next_tokens(batch), optimizer)
    assert loaded.model.head.table.revision == before + 1


def test_training_goes_on_from_the_file_as_from_memory(tmp_path: Path) -> None:
    loaded = load("boundary-39")
    train(loaded, 2)
    again = load(str(saved(loaded, tmp_path)))
    batch = TextBatch.of([document(loaded)])
    for model in (loaded.model, again.model):  # each with a new optimizer: moments are not in the file
        optimizer = AdamW(model.parameters.values(), 0.003)
        train_step(model, Recording(ComputeTeam()), batch, Targets.next_tokens(batch), optimizer)
    assert loaded.model.parameters.digest() == again.model.parameters.digest()


def test_the_daemon_continues_what_was_learned(tmp_path: Path) -> None:
    loaded = load("glass-default")
    train(loaded, STEPS["glass-default"])
    with daemon(str(saved(loaded, tmp_path))) as running:
        told = generate(running.stub, pb.GenerateRequest(text="Haste", max_new_tokens=20, sampling=GREEDY))
    assert told.text == " makes waste."
    assert told.reason == "END_TOKEN"


def test_a_step_between_calls_makes_open_sessions_stale(tmp_path: Path) -> None:
    loaded = load("boundary-39")
    ids = document(loaded)
    with serving(loaded) as served:
        opened = prefill(served.stub, ids[:-1])
        served.wait_until_idle()
        train(loaded, 1)
        told = failure(lambda: decode(served.stub, opened.session_id, ids[-1:]))
        assert (told.code, told.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "PARAMETERS_CHANGED")
        assert close(served.stub, opened.session_id).position == len(ids) - 1
        fresh = prefill(served.stub, ids)
        assert rows(fresh.logits) == served.full_rows(ids)[-1:]
