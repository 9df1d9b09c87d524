"""A model that cannot take the served one's place is refused by name, and nothing has changed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import grpc
import pytest

from wire.admins import CONFIGURATION, NEW, OLD, administered, model_of, reload, write_model
from wire.calls import Failure, decode, failure, prefill, rows
from wire.models import seeded
from wire.serving import Serving
from zeroulp.model.text import DocumentBpe
from zeroulp.server import reloader

PROMPT = [1, 2, 3]
FOREIGN = DocumentBpe([(token, token) for token in range(2, 44)])
"""A tokenizer of the right size, for a model that was started without one."""


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Serving]:
    with administered(tmp_path, write_model(tmp_path / "old.safetensors", OLD)) as served:
        yield served
        served.check_blocks()


def check_unchanged(own: Serving, call: Callable[[], object]) -> Failure:
    """Fail unless a reload fails and the model, an open session and its next logits are as before."""
    opened, twin = (prefill(own.stub, PROMPT).session_id for _ in range(2))
    before, revision = model_of(own), own.loaded.model.parameters.revision
    expected = rows(decode(own.stub, twin, [4]).logits)
    told = failure(call)
    assert own.loaded.model.parameters.revision == revision
    assert own.loaded.model.parameters.digest() == before.parameters_digest
    assert model_of(own) == before
    assert rows(decode(own.stub, opened, [4]).logits) == expected
    return told


def other_configuration(folder: Path) -> str:
    other = replace(CONFIGURATION, rope_base=500.0, max_positions=65)
    return write_model(folder / "other.safetensors", seeded("other", other, 1))


def another_tokenizer(folder: Path) -> str:
    return write_model(folder / "text.safetensors", replace(NEW, tokenizer=FOREIGN))


def spoilt(folder: Path, name: str, value: float) -> str:
    model = seeded("spoilt", CONFIGURATION, 1234).model
    node = model.parameters[name]
    values = node.values()
    values.reshape(-1)[0] = value
    node.set_value(values)
    return write_model(folder / "spoilt.safetensors", NEW, model)


def cut_short(folder: Path) -> str:
    path = Path(write_model(folder / "cut.safetensors", NEW))
    path.write_bytes(path.read_bytes()[:-8])
    return str(path)


def hugging_face(folder: Path) -> str:
    (folder / "hf").mkdir()
    (folder / "hf" / "config.json").touch()
    return str(folder / "hf")


REFUSED: dict[str, tuple[Callable[[Path], str], str]] = {
    "another configuration": (
        other_configuration,
        r"max_positions is 65, and 64 is served; rope_base is 500\.0, and 10000\.0 is served",
    ),
    "another model": (lambda folder: "boundary-39", "the configuration differs: .* is served"),
    "a tokenizer": (another_tokenizer, r"its tokenizer \(document-bpe\) .* is not the served model's"),
    "a NaN": (
        lambda folder: spoilt(folder, "final_norm.gain", float("nan")),
        "final_norm.gain holds a value",
    ),
    "too large": (
        lambda folder: spoilt(folder, "token_embedding.weight", 1e200),
        "cannot be served: a value that is not finite appeared in layer 0",
    ),
    "cut short": (cut_short, "needs .* bytes, and .* are left"),
    "absent": (lambda folder: str(folder / "absent.safetensors"), "there is no file"),
    "no model": (lambda folder: "/etc/hostname", "no model is called"),
    "a folder": (hugging_face, "is a Hugging Face folder"),
    "a long path": (lambda folder: f"{'x' * 100_000}.gguf", "there is no file"),
}


@pytest.mark.parametrize(("made", "words"), REFUSED.values(), ids=REFUSED)
def test_a_refused_model_changes_nothing(
    own: Serving, tmp_path: Path, made: Callable[[Path], str], words: str
) -> None:
    path = made(tmp_path)
    told = check_unchanged(own, lambda: reload(own.channel, path))
    assert (told.code, told.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_ARGUMENT_VALUE")
    assert told.fields == ["path"]
    assert re.search(words, told.message), told.message
    assert reload(own.channel).name == "old"  # the next one is not refused for it


@pytest.mark.parametrize("damage", [b"", b"1234567", None])
def test_a_path_that_the_caller_did_not_send_is_not_told(
    own: Serving, tmp_path: Path, damage: bytes | None
) -> None:
    path = tmp_path / "old.safetensors"
    path.unlink() if damage is None else path.write_bytes(damage)
    told = check_unchanged(own, lambda: reload(own.channel))
    assert told.code is grpc.StatusCode.INVALID_ARGUMENT
    assert "the served model's source" in told.message
    assert str(tmp_path) not in repr(told)


def test_a_pulled_models_folder_is_not_told(
    own: Serving, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "cache" / "tiny.gguf"
    path.parent.mkdir()
    path.write_bytes(b"GGUF")
    monkeypatch.setattr("zeroulp.model.loading.resolve", lambda name: path)
    monkeypatch.setattr(reloader, "resolve", lambda name: path)
    told = check_unchanged(own, lambda: reload(own.channel, "tiny"))
    assert told.message.startswith("tiny: ")
    assert str(tmp_path) not in repr(told)
