"""A daemon of our own: ``zeroulp serve`` as a child process."""

from __future__ import annotations

import os
import queue
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import IO

from zeroulp.client.cli.failure import CommandFailed
from zeroulp.client.errors import ZeroulpError

LISTENING = "zeroulp listening on "
READY = "zeroulp ready: "

START_SECONDS = 600.0
"""Loading a small model takes seconds; a cold disk and a busy machine take minutes."""
STOP_SECONDS = 15.0
"""An idle daemon stops at once; this only bounds the wait for one that does not."""
TAIL_LINES = 20


class Daemon:
    """A child that serves on a free port. Two threads read what it writes; its methods are another's."""

    def __init__(self, process: subprocess.Popen[bytes], log: IO[bytes], *, show_loading: bool) -> None:
        self._process = process
        self._log = log
        self._show = threading.Event()
        if show_loading:
            self._show.set()
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._readers = [
            threading.Thread(target=self._read_stdout, args=(process.stdout,), daemon=True),
            threading.Thread(target=self._read_stderr, args=(process.stderr,), daemon=True),
        ]
        for reader in self._readers:
            reader.start()
        self.target = ""
        """Where it listens, "host:port"."""
        self.ready = ""
        """What it said when it was ready: model, parameters, bytes, threads."""

    def wait_until_ready(self) -> None:
        """Wait for its two lines; raises CommandFailed when it ends or takes too long instead."""
        self.target = self._line_after(LISTENING)
        self.ready = self._line_after(READY)
        self._show.clear()

    def stop(self) -> int:
        """End it with SIGTERM, or by force after STOP_SECONDS, and return its exit code."""
        if self._process.poll() is None:
            self._process.terminate()
        try:
            code = self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        # Their pipes are closed by now, so they end.
        for reader in self._readers:
            reader.join(STOP_SECONDS)
        return code

    def log_tail(self) -> str:
        """Return the last lines of its log, which is complete once it was stopped."""
        self._log.seek(0)
        return "\n".join(self._log.read().decode(errors="replace").splitlines()[-TAIL_LINES:])

    def _line_after(self, prefix: str) -> str:
        while True:
            try:
                line = self._lines.get(timeout=START_SECONDS)
            except queue.Empty:
                raise CommandFailed(f"the daemon was not ready within {START_SECONDS:g} s") from None
            if line is None:
                raise CommandFailed(f"the daemon ended before it was ready, with exit code {self.stop()}")
            if line.startswith(prefix):
                return line.removeprefix(prefix).strip()

    def _read_stdout(self, stdout: IO[bytes]) -> None:
        # To the end, so that the daemon never waits for a reader.
        for line in stdout:
            self._lines.put(line.decode(errors="replace"))
        self._lines.put(None)

    def _read_stderr(self, stderr: IO[bytes]) -> None:
        # By whatever is there, as a progress bar ends no lines.
        while chunk := os.read(stderr.fileno(), 65536):
            self._log.write(chunk)
            if self._show.is_set():
                sys.stderr.buffer.write(chunk)
                sys.stderr.flush()


@contextmanager
def running_daemon(program: Sequence[str], model: str) -> Iterator[Daemon]:
    """Run "``program`` serve" on a free port while the block lasts, however it ends.

    When the block or the start fails, the tail of the daemon's log goes to stderr.
    """
    show = sys.stderr.isatty()
    with (
        tempfile.TemporaryFile() as log,
        subprocess.Popen(
            [*program, "serve", "--model", model, "--listen", "127.0.0.1:0"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # Ctrl-C at a terminal goes to a whole group, but this one is to be stopped by us alone.
            start_new_session=True,
            # Into a pipe it would draw no progress of its own accord.
            env={**os.environ, "FORCE_COLOR": "1"} if show else None,
        ) as process,
    ):
        daemon = Daemon(process, log, show_loading=show)
        try:
            daemon.wait_until_ready()
            yield daemon
        except (ZeroulpError, CommandFailed):
            daemon.stop()
            print(f"The daemon's log ends with:\n{daemon.log_tail()}", file=sys.stderr)
            raise
        finally:
            daemon.stop()
