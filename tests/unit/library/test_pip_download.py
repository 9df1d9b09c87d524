"""With the real pip, which is offline: it may look into one folder and nowhere else."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from unit.library.conftest import wheel_with
from zeroulp.model.library.pip_download import PullFailed, pip_download

WHEEL = "tiny-1.0-py3-none-any.whl"
METADATA = b"Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\nRequires-Dist: absent\n"


@pytest.fixture
def links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "links"
    folder.mkdir()
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "downloads"
    folder.mkdir()
    return folder


def test_pip_brings_the_wheel_without_dependencies(
    links: Path, folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    information = {
        "tiny-1.0.dist-info/METADATA": METADATA,
        "tiny-1.0.dist-info/WHEEL": b"Wheel-Version: 1.0\n",
    }
    wheel = wheel_with(information)
    (links / WHEEL).write_bytes(wheel)
    pip_download("tiny==1.0", folder)
    assert [path.name for path in folder.iterdir()] == [WHEEL]
    assert (folder / WHEEL).read_bytes() == wheel
    shown = capfd.readouterr()
    assert shown.out == ""
    assert WHEEL in shown.err


@pytest.mark.usefixtures("links")
def test_pips_own_words_are_in_the_error_and_on_standard_error(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(
        PullFailed, match=r"could not download tiny==1\.0:\n(.*\n)*.*No matching distribution found"
    ) as caught:
        pip_download("tiny==1.0", folder)
    assert len(str(caught.value).splitlines()) <= 6
    assert "No matching distribution found" in capfd.readouterr().err


def pretend_python(path: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(path))


def test_a_python_without_pip_is_a_clear_error(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend_python(tmp_path / "python", "echo 'No module named pip' >&2; exit 1", monkeypatch)
    with pytest.raises(PullFailed, match="No module named pip"):
        pip_download("tiny==1.0", folder)


def test_a_silent_failure_has_its_status(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend_python(tmp_path / "python", "exit 3", monkeypatch)
    with pytest.raises(PullFailed, match="it ended with status 3"):
        pip_download("tiny==1.0", folder)


def test_only_the_last_lines_are_kept(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pretend_python(tmp_path / "python", "seq 1000 >&2; exit 1", monkeypatch)
    with pytest.raises(PullFailed) as caught:
        pip_download("tiny==1.0", folder)
    assert str(caught.value).splitlines()[1:] == ["996", "997", "998", "999", "1000"]


def test_a_python_that_cannot_start_is_a_clear_error(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "absent"))
    with pytest.raises(PullFailed, match="pip could not be started"):
        pip_download("tiny==1.0", folder)
