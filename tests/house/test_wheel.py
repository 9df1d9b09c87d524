from __future__ import annotations

import subprocess
import sys
import zipfile

import pytest

from house.tree import PORTIONS, ROOT, source_files


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    return zipfile.ZipFile(wheel).namelist()


def test_the_wheel_holds_the_source_roots_and_nothing_else(names: list[str]) -> None:
    packed = sorted(name for name in names if ".dist-info/" not in name)
    sources = sorted(name.removeprefix(f"{root}/") for root in PORTIONS for name in source_files(root))
    assert packed == sources


def test_every_portion_is_typed_and_the_namespace_has_no_init(names: list[str]) -> None:
    assert {f"zeroulp/{portion}/py.typed" for portion in PORTIONS.values()} <= set(names)
    assert "zeroulp/__init__.py" not in names
    assert {name.split("/")[1] for name in names if name.startswith("zeroulp/")} == set(PORTIONS.values())


def test_the_wheel_carries_its_licence(names: list[str]) -> None:
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names)


def test_a_source_root_holds_one_portion() -> None:
    for root, portion in PORTIONS.items():
        assert all(name.startswith(f"{root}/zeroulp/{portion}/") for name in source_files(root)), root
