from __future__ import annotations

from pathlib import Path

import pytest

from unit.library.conftest import CONTENT, FakeIndex
from zeroulp.model.errors import UnknownModel, UnsupportedModel
from zeroulp.model.library.catalogue import BUILT_IN
from zeroulp.model.library.pull import pull
from zeroulp.model.library.resolve import SUFFIXES, resolve


@pytest.mark.parametrize("name", BUILT_IN)
def test_a_built_in_name_is_itself(name: str) -> None:
    assert resolve(name) is BUILT_IN[name]


@pytest.mark.usefixtures("tiny")
def test_a_pulled_name_is_its_file_once_it_is_there_and_whole(models: Path, index: FakeIndex) -> None:
    with pytest.raises(UnknownModel, match=r"tiny is not pulled.* run: zeroulp pull tiny"):
        resolve("tiny")
    pull("tiny", index)
    assert resolve("tiny") == models / "tiny.gguf"
    (models / "tiny.gguf").write_bytes(b"\1" + CONTENT[1:])
    with pytest.raises(UnknownModel, match="its file is damaged; run: zeroulp pull tiny"):
        resolve("tiny")


@pytest.mark.usefixtures("tiny", "models")
def test_a_catalogue_name_is_never_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("tiny", "boundary-39"):
        Path(name).write_bytes(b"GGUF")
    assert resolve("boundary-39") is BUILT_IN["boundary-39"]
    with pytest.raises(UnknownModel, match="tiny is not pulled"):
        resolve("tiny")


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_path_is_an_existing_file_of_a_known_kind(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"model{suffix}"
    path.touch()
    assert resolve(str(path)) == path


def test_a_relative_path_is_taken_from_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "model.gguf").touch()
    monkeypatch.chdir(tmp_path)
    assert resolve("model.gguf") == Path("model.gguf")


def test_a_path_without_a_file_is_unknown(tmp_path: Path) -> None:
    folder = tmp_path / "folder.gguf"
    folder.mkdir()
    for path in (tmp_path / "absent.gguf", folder, "nul\0.gguf", "x" * 5000 + ".gguf"):
        with pytest.raises(UnknownModel, match="there is no file"):
            resolve(str(path))


@pytest.mark.parametrize("text", ["", "boundary", "Boundary-39", "boundary-39 ", "model.bin", "."])
def test_any_other_text_lists_what_is_allowed(text: str) -> None:
    with pytest.raises(
        UnknownModel,
        match=r"boundary-39, glass-default, smollm2-135m or a path to a \.gguf or \.safetensors file",
    ):
        resolve(text)


@pytest.mark.parametrize("name", ["SmolLM2-135M", "folder.safetensors"])
def test_a_hugging_face_folder_is_refused_by_name(tmp_path: Path, name: str) -> None:
    folder = tmp_path / name
    folder.mkdir()
    (folder / "config.json").touch()
    with pytest.raises(UnsupportedModel, match=rf"{name}' is a Hugging Face folder .* use a GGUF file"):
        resolve(str(folder))


def test_an_existing_file_of_another_kind_is_no_model(tmp_path: Path) -> None:
    path = tmp_path / "model.bin"
    path.touch()
    with pytest.raises(UnknownModel, match="no model is called"):
        resolve(str(path))
