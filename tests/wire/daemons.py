"""The daemon as a process: what it prints, logs, and how it ends."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc

from wire.serving import CHANNEL_OPTIONS
from zeroulp.v1.decoder_pb2_grpc import DecoderServiceStub

ZEROULP = str(Path(sys.executable).with_name("zeroulp"))
END_SECONDS = 60.0


class Daemon:
    """A running ``zeroulp serve``; one thread collects its stderr."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self._log: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        assert process.stdout is not None
        self.listening = process.stdout.readline().strip()
        self.target = self.listening.removeprefix("zeroulp listening on ")
        assert self.target != self.listening, "".join(self._log)
        self.ready = process.stdout.readline().strip()
        assert self.ready.startswith("zeroulp ready: "), "".join(self._log)
        self.channel = grpc.insecure_channel(self.target, options=CHANNEL_OPTIONS)
        self.stub = DecoderServiceStub(self.channel)

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self._log.append(line)

    @property
    def log(self) -> str:
        """Everything on stderr so far."""
        return "".join(self._log)

    @property
    def log_lines(self) -> list[dict[str, Any]]:
        """The log, a JSON object a line; fails on a line that is none."""
        return [json.loads(line) for line in list(self._log)]

    def wait(self) -> int:
        """Wait for the end, and return the exit code."""
        code = self.process.wait(END_SECONDS)
        self._reader.join(END_SECONDS)
        return code


@contextmanager
def daemon(model: str, *options: str) -> Iterator[Daemon]:
    """Run ``zeroulp serve`` on a free port while the block lasts."""
    arguments = [ZEROULP, "serve", "--model", model, "--listen", "127.0.0.1:0", "--threads", "2", *options]
    with subprocess.Popen(
        arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        try:
            running = Daemon(process)
            try:
                yield running
            finally:
                running.channel.close()
        finally:
            process.terminate()
            try:
                process.wait(END_SECONDS)
            finally:
                process.kill()


def run(*arguments: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run the command line to its end."""
    return subprocess.run(
        [ZEROULP, *arguments], capture_output=True, text=True, input=stdin, timeout=END_SECONDS, check=False
    )
