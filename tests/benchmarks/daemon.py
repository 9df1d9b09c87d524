"""A daemon of our own on a free port, and what is timed of it over gRPC."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
import time
from pathlib import Path

from zeroulp.client import GREEDY, Client

PROMPT_TOKENS = 32
VOCABULARY = 49152
_PAGE = 4096


def random_ids(count: int) -> list[int]:
    """Return a prompt that nothing is known of."""
    return [random.randrange(VOCABULARY) for _ in range(count)]


class Daemon:
    """``zeroulp serve`` on the real model."""

    def __init__(self, threads: int) -> None:
        command = [sys.executable, "-m", "zeroulp.client", "serve", "--model", "smollm2-135m"]
        self._process = subprocess.Popen(
            [*command, "--listen", "127.0.0.1:0", "--threads", str(threads)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        lines = [self._process.stdout.readline() for _ in range(2)] if self._process.stdout else []
        if "listening on " not in lines[0]:
            raise SystemExit("the daemon did not start; run `zeroulp serve --model smollm2-135m` to see why")
        self.client = Client(lines[0].split("listening on ")[1].strip())

    def prefill(self, tokens: int, rows: int = 1) -> float:
        """Return the seconds of one Prefill."""
        ids = random_ids(tokens)
        start = time.perf_counter()
        with self.client.prefill(ids):
            return time.perf_counter() - start

    def decode(self, tokens: int, rows: int = 1) -> float:
        """Return the seconds that ``tokens`` tokens of ``rows`` sessions take, streamed.

        The daemon runs ahead of its readers while the last streams start; what it has committed by then is
        not counted.
        """
        streams = [
            self.client.generate(
                random_ids(PROMPT_TOKENS), max_new_tokens=tokens + 1, sampling=GREEDY, ignore_end_tokens=True
            )
            for _ in range(rows)
        ]
        for stream in streams:
            next(stream)
        sessions = [self.client.session(stream.session_id) for stream in streams]
        readers = [threading.Thread(target=stream.text) for stream in streams]
        start = time.perf_counter()
        ahead = sum(session.state().position - PROMPT_TOKENS for session in sessions)
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join()
        seconds = time.perf_counter() - start
        return seconds * tokens * rows / ((tokens + 1) * rows - ahead)

    def decode_at(self, context: int, tokens: int) -> float:
        """Return the seconds a token of one session that is ``context`` tokens long."""
        with self.client.prefill(random_ids(context)) as session:
            session.decode([1])
            start = time.perf_counter()
            for _ in range(tokens):
                session.decode([1])
            return (time.perf_counter() - start) / tokens

    def first_token(self, prompt: int, streams: int) -> float:
        """Return the seconds to the first token of a prompt while ``streams`` others decode."""
        load = [
            self.client.generate(
                random_ids(PROMPT_TOKENS), max_new_tokens=400, sampling=GREEDY, ignore_end_tokens=True
            )
            for _ in range(streams)
        ]
        for stream in load:
            next(stream)
        readers = [threading.Thread(target=_drained, args=(stream,)) for stream in load]
        for reader in readers:
            reader.start()
        start = time.perf_counter()
        with self.client.generate(random_ids(prompt), max_new_tokens=1, sampling=GREEDY) as generation:
            next(generation)
            seconds = time.perf_counter() - start
        for stream in load:
            stream.cancel()
        for reader in readers:
            reader.join()
        return seconds

    @property
    def resident_bytes(self) -> int:
        """Memory that the daemon's process has in use."""
        return int(Path(f"/proc/{self._process.pid}/statm").read_text().split()[1]) * _PAGE

    def stop(self) -> None:
        """End it."""
        self.client.close()
        self._process.terminate()
        self._process.wait()


def _drained(stream: object) -> None:
    try:
        for _ in stream:  # type: ignore[attr-defined]
            pass
    except Exception:  # cancelled: the load is over
        return
