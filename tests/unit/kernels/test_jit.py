"""Compiled kernels are kept, found again, and never taken for those of another source."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import llvmlite
import numba
import pytest

from zeroulp.model.kernels import jit
from zeroulp.model.kernels.jit import Part, code_folder, kernel

PROGRAM = """
import numpy as np
from zeroulp.model.kernels.jit import code_folder
from zeroulp.model.kernels.softmax import ascending_sum, first_maximum
values = np.array([0.5, 0.25, 4.0])
assert ascending_sum(values) == 4.75
assert first_maximum(values, 0, 3) == 2
print(code_folder())
"""


@pytest.fixture
def copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of kernel sources that ``code_folder`` looks at instead of its own."""
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(Path(jit.__file__).parent, tmp_path, ignore=ignored, dirs_exist_ok=True)
    monkeypatch.setattr(jit, "__file__", str(tmp_path / "jit.py"))
    return tmp_path


def folder_now() -> Path:
    return code_folder.__wrapped__()


def test_folder_is_the_sources_and_not_their_place(copied: Path) -> None:
    assert folder_now() == code_folder()


@pytest.mark.parametrize(
    "name", ["tile.py", "attention.py", "elementary_constants.py", "jit.py", "backward/attention.py"]
)
def test_folder_changes_with_any_source(copied: Path, name: str) -> None:
    source = copied / name
    source.write_bytes(source.read_bytes() + b"\n")
    assert folder_now() != code_folder()
    assert folder_now().parent == code_folder().parent


def test_folder_changes_with_a_source_that_comes_goes_or_is_renamed(copied: Path) -> None:
    seen = {code_folder()}
    (copied / "one.py").write_text("")
    seen.add(folder_now())
    (copied / "one.py").rename(copied / "two.py")
    seen.add(folder_now())
    (copied / "two.py").unlink()
    (copied / "norm.py").unlink()
    seen.add(folder_now())
    assert len(seen) == 4


@pytest.mark.parametrize("module", [numba, llvmlite])
def test_folder_changes_with_the_compiler(monkeypatch: pytest.MonkeyPatch, module: object) -> None:
    monkeypatch.setattr(module, "__version__", "0.0.0")
    assert folder_now() != code_folder()


def test_another_process_finds_the_code(tmp_path: Path) -> None:
    def files() -> dict[Path, int]:
        return {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}

    def run() -> Path:
        environment = {"XDG_CACHE_HOME": str(tmp_path), "PYTHONPATH": ":".join(filter(None, sys.path))}
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True
        )
        return Path(done.stdout.strip())

    folder, first = run(), files()
    assert folder.is_relative_to(tmp_path)
    assert any(path.suffix == ".nbc" for path in first)
    assert all(path.is_relative_to(folder) for path in first)
    assert run() == folder
    assert files() == first


def test_other_users_of_numba_keep_their_folder() -> None:
    before = numba.core.config.CACHE_DIR
    kernel(folder_now_stub)
    assert before == numba.core.config.CACHE_DIR


def folder_now_stub(x: float) -> float:
    return x


def test_division_by_zero_is_arithmetic() -> None:
    assert divided(1.0, 0.0) == float("inf")
    assert divided(0.0, 0.0) != divided(0.0, 0.0)


@kernel
def divided(a: float, b: float) -> float:
    return a / b


def test_sums_are_not_reassociated_and_products_not_fused() -> None:
    # fast-math would make (a + b) - b into a
    assert cancelled(1.0, 1e100) == 0.0
    a = 1.0 + 2.0**-30
    assert multiplied_and_added(a, a, -(a * a)) == 0.0


@kernel
def cancelled(a: float, b: float) -> float:
    return (a + b) - b


@kernel
def multiplied_and_added(a: float, b: float, c: float) -> float:
    return a * b + c


def test_a_part_has_one_address() -> None:
    from zeroulp.model.kernels import parts

    assert isinstance(parts.add, Part)
    assert parts.add.address == parts.add.address != 0
    assert parts.add.address != parts.swiglu.address
