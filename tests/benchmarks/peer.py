"""Another system in a process of its own, so that neither disturbs the other's threads."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Kind:
    """A peer: its script, and what a Python needs to run it."""

    name: str
    script: str
    needs: str


PEERS = (
    Kind("transformers f64", "peer_transformers.py", "torch, transformers, gguf and accelerate"),
    Kind("llama.cpp Q4_1", "peer_llamacpp.py", "llama-cpp-python"),
)


class Peer:
    """Takes ``prefill`` and ``decode`` commands with tokens and rows, and answers in seconds."""

    def __init__(self, kind: Kind, python: str, model: Path, threads: int) -> None:
        self.name = kind.name
        script = str(Path(__file__).with_name(kind.script))
        self._process = subprocess.Popen(
            [python, script, str(model), str(threads)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.ready = self._line() == "ready"

    def _line(self) -> str:
        return self._process.stdout.readline().strip() if self._process.stdout else ""

    def prefill(self, tokens: int, rows: int = 1) -> float:
        """Return the seconds of a prompt."""
        return self._ask("prefill", tokens, rows)

    def decode(self, tokens: int, rows: int = 1) -> float:
        """Return the seconds of ``tokens`` steps of ``rows`` sequences."""
        return self._ask("decode", tokens, rows)

    def _ask(self, command: str, tokens: int, rows: int) -> float:
        if self._process.stdin is None:
            raise RuntimeError("the peer has no input")
        print(command, tokens, rows, file=self._process.stdin, flush=True)
        return float(self._line())

    def stop(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()
