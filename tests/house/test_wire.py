from __future__ import annotations

import re
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.version import Version

from house.generate_wire import PROTO, generate, protos
from house.tree import ROOT

WIRE = Path("zeroulp", "v1")


def generated(root: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (root / WIRE).glob("*_pb2*.py*")}


def test_generated_code_is_that_of_the_proto_files(tmp_path: Path) -> None:
    assert protos(), "no .proto file"
    generate(tmp_path)
    committed, fresh = generated(PROTO), generated(tmp_path)
    assert sorted(committed) == sorted(fresh), "run `make proto`"
    stale = [name for name in fresh if committed[name] != fresh[name]]
    assert not stale, f"run `make proto`: {stale}"


def test_the_oldest_runtime_that_may_be_installed_can_load_the_generated_code() -> None:
    """Generated code refuses a runtime older than its generator."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    oldest = {
        requirement.name: min(Version(part.version) for part in requirement.specifier)
        for requirement in map(Requirement, project["dependencies"])
    }
    code = "\n".join(text.decode() for text in generated(PROTO).values())
    for runtime, mark in [
        ("grpcio", r"GRPC_GENERATED_VERSION = '(.+)'"),
        ("protobuf", r"# Protobuf Python Version: (\S+)"),
    ]:
        generators = {Version(version) for version in re.findall(mark, code)}
        assert generators, runtime
        assert max(generators) <= oldest[runtime], f"{runtime} must be at least its generator's version"
