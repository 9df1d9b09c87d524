"""The Dockerfile's install in a fresh environment: `make docker-check`; slow, so not in the normal run.

What needs a container is left out: the base image, the system packages and the user.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import yaml

from house.dockerfile import instructions, only
from house.tree import ROOT, source_files


def commands() -> set[str]:
    """Return the subcommands that the Dockerfile and the compose file call."""
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"].values()
    called = [
        only("CMD").words(),
        only("HEALTHCHECK").words()[1:],
        *(service["command"] for service in services),
    ]
    return {words[0] for words in called}


def test_the_install_step_gives_a_working_command(tmp_path: Path) -> None:
    source, environment = tmp_path / "src", tmp_path / "environment"
    source.mkdir()
    tracked = source_files()
    for copy in (instruction.text.split() for instruction in instructions() if instruction.name == "COPY"):
        for name in (n for n in tracked for wanted in copy[:-1] if n == wanted or n.startswith(f"{wanted}/")):
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, source / name)

    subprocess.run([sys.executable, "-m", "venv", environment], check=True)
    path = f"{environment / 'bin'}{os.pathsep}{os.environ['PATH']}"
    fresh = {**os.environ, "PATH": path, "PYTHONNOUSERSITE": "1"}
    fresh.pop("PYTHONPATH", None)
    steps = [i.text for i in instructions() if i.name == "RUN" and i.text.startswith("pip install")]
    assert steps
    for step in steps:
        subprocess.run(["sh", "-ec", step], cwd=source, env=fresh, check=True)

    shutil.rmtree(source)  # the image could do without it too: nothing may point back
    (program,) = only("ENTRYPOINT").words()
    for arguments in ([], *([name] for name in sorted(commands()))):
        subprocess.run([program, *arguments, "--help"], cwd=tmp_path, env=fresh, check=True)
    subprocess.run(["pip", "check"], cwd=tmp_path, env=fresh, check=True)
