"""Generates the Python code of every proto/zeroulp/v1/*.proto, for `make proto` and the test of it."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from importlib.resources import files
from pathlib import Path
from typing import Final

from google import rpc

PROTO: Final = Path(__file__).resolve().parents[2] / "proto"


def protos() -> list[Path]:
    """Return the files of the wire contract."""
    return sorted((PROTO / "zeroulp" / "v1").glob("*.proto"))


def generate(out: Path) -> None:
    """Write modules and stubs below ``out``; raises ``CalledProcessError`` where protoc refuses."""
    scripts = Path(sysconfig.get_path("scripts"))
    google = Path(rpc.__path__[0]).parents[1]  # google/rpc/*.proto are installed beside their modules
    command = [
        *(sys.executable, "-m", "grpc_tools.protoc"),
        f"--proto_path={PROTO}",
        f"--proto_path={files('grpc_tools') / '_proto'}",
        f"--proto_path={google}",
        f"--plugin=protoc-gen-mypy={scripts / 'protoc-gen-mypy'}",
        f"--plugin=protoc-gen-mypy_grpc={scripts / 'protoc-gen-mypy_grpc'}",
        f"--python_out={out}",
        f"--grpc_python_out={out}",
        f"--mypy_out=quiet:{out}",
        f"--mypy_grpc_out=quiet,sync_only:{out}",
    ]
    subprocess.run([*command, *map(str, protos())], check=True)


if __name__ == "__main__":
    if not protos():
        sys.exit(f"no .proto file in {PROTO / 'zeroulp' / 'v1'}")
    generate(PROTO)
