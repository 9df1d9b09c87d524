from __future__ import annotations

import subprocess
import sys
import tomllib
from importlib import metadata
from textwrap import dedent

import pytest
from packaging.requirements import Requirement

from house.tree import ROOT

BLOCK = """
import sys


class Absent:
    def __init__(self, names):
        self.names = names

    def find_spec(self, name, path=None, target=None):
        if any(name == absent or name.startswith(absent + ".") for absent in self.names):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


sys.meta_path.insert(0, Absent(ABSENT))
"""


def server_only_modules() -> set[str]:
    """Return the top-level modules that the base install does not bring."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    names = {Requirement(text).name for text in project["optional-dependencies"]["server"]}
    modules = {
        module
        for module, owners in metadata.packages_distributions().items()
        if names & {owner.lower() for owner in owners}
    }
    assert {"numpy", "numba", "tokenizers"} <= modules
    return modules


def run_without(absent: set[str], code: str) -> subprocess.CompletedProcess[str]:
    program = f"ABSENT = {sorted(absent)!r}\n{BLOCK}\n{dedent(code)}"
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)


def test_the_client_imports_without_server_and_model() -> None:
    absent = server_only_modules() | {"zeroulp.server", "zeroulp.model"}
    done = run_without(absent, "import zeroulp.client, zeroulp.client.cli, zeroulp.v1")
    assert done.returncode == 0, done.stderr


def test_the_command_of_the_base_install_shows_its_help() -> None:
    """Every portion is in the wheel: what a base install lacks is the server's dependencies."""
    code = """
        sys.argv = ["zeroulp", "--help"]
        from zeroulp.client.cli import main
        sys.exit(main())
    """
    done = run_without(server_only_modules(), code)
    assert done.returncode == 0, done.stderr
    assert "generate" in done.stdout


def test_the_block_blocks() -> None:
    assert "ModuleNotFoundError" in run_without({"numpy"}, "import numpy.linalg").stderr


@pytest.mark.parametrize(
    ("arguments", "absent"),
    [
        (["diff", "a.npz", "b.npz"], {"numpy"}),
        (["diff", "a.npz", "b.npz"], {"safetensors"}),
        (["trace", "--ids", "0", "--out", "a.npz"], {"numpy"}),
        (["trace", "--ids", "0"], {"rich"}),
    ],
)
def test_a_command_that_needs_an_extra_names_it(arguments: list[str], absent: set[str]) -> None:
    code = f"""
        sys.argv = ["zeroulp"]
        from zeroulp.client.cli import main
        sys.exit(main({arguments!r}))
    """
    done = run_without(absent, code)
    assert done.returncode == (2 if arguments[0] == "diff" else 1)
    assert "pip install 'zeroulp[trace]'" in done.stderr
