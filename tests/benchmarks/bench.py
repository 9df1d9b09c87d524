"""Measure the daemon over gRPC, and a peer in the same run where one is at hand.

Rounds alternate between daemon and peer, so that a machine that changes its speed changes it for both;
medians are compared. Nothing here is asserted.
"""

from __future__ import annotations

import argparse
import json
import platform
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from zeroulp.client import GREEDY, Client
from zeroulp.model.library.resolve import resolve

PREFILL_TOKENS = 512
DECODE_PROMPT = 32
DECODE_TOKENS = 16
VOCABULARY = 49152
PEER = "transformers, float64"


class Daemon:
    """A daemon of our own on a free port."""

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

    def prefill(self) -> float:
        ids = [random.randrange(VOCABULARY) for _ in range(PREFILL_TOKENS)]
        start = time.perf_counter()
        with self.client.prefill(ids):
            return time.perf_counter() - start

    def decode(self) -> float:
        """Seconds for DECODE_TOKENS streamed tokens of one session, the first not counted."""
        ids = [random.randrange(VOCABULARY) for _ in range(DECODE_PROMPT)]
        tokens = self.client.generate(
            ids, max_new_tokens=DECODE_TOKENS + 1, sampling=GREEDY, ignore_end_tokens=True
        )
        next(iter(tokens))
        start = time.perf_counter()
        for _ in tokens:
            pass
        return time.perf_counter() - start

    def stop(self) -> None:
        self.client.close()
        self._process.terminate()
        self._process.wait()


class Peer:
    """The peer in a process of its own, so that neither disturbs the other's threads."""

    def __init__(self, python: str, model: Path, threads: int) -> None:
        script = str(Path(__file__).with_name("peer_transformers.py"))
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

    def ask(self, command: str, count: int) -> float:
        if self._process.stdin is None:
            raise RuntimeError("the peer has no input")
        print(command, count, file=self._process.stdin, flush=True)
        return float(self._line())

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()


def measure(daemon: Daemon, peer: Peer | None, rounds: int) -> dict[str, list[float]]:
    """Return tokens per second of every round by figure."""
    figures: dict[str, tuple[int, Callable[[], float]]] = {
        f"prefill {PREFILL_TOKENS}": (PREFILL_TOKENS, daemon.prefill),
        "decode": (DECODE_TOKENS, daemon.decode),
    }
    if peer is not None:
        figures[f"peer prefill {PREFILL_TOKENS}"] = (
            PREFILL_TOKENS,
            lambda: peer.ask("prefill", PREFILL_TOKENS),
        )
        figures["peer decode"] = DECODE_TOKENS, lambda: peer.ask("decode", DECODE_TOKENS)
    rates: dict[str, list[float]] = {name: [] for name in figures}
    for done in range(rounds + 1):
        for name, (tokens, run) in figures.items():
            print(f"\rround {done} of {rounds}: {name}          ", end="", file=sys.stderr, flush=True)
            seconds = run()
            if done:  # the first round warms up
                rates[name].append(tokens / seconds)
    print("\r" + " " * 60 + "\r", end="", file=sys.stderr)
    return rates


def report(rates: dict[str, list[float]], threads: int) -> dict[str, object]:
    """Print the table and return it."""
    medians = {name: statistics.median(values) for name, values in rates.items()}
    rows: list[dict[str, object]] = []
    print(f"{'tokens/s, medians':22} {'zeroulp':>9} {'min..max':>15} {'peer':>9} {'ratio':>6}")
    for name in (name for name in rates if not name.startswith("peer ")):
        peer = medians.get(f"peer {name}")
        spread = f"{min(rates[name]):.1f}..{max(rates[name]):.1f}"
        ratio = f"{medians[name] / peer:.2f}" if peer else "-"
        print(f"{name:22} {medians[name]:9.1f} {spread:>15} {f'{peer:.1f}' if peer else '-':>9} {ratio:>6}")
        rows.append({"figure": name, "zeroulp": rates[name], "peer": rates.get(f"peer {name}")})
    return {"threads": threads, "processor": platform.processor(), "peer": PEER, "figures": rows}


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--peer-python", default=sys.executable, help="a Python that has torch and transformers"
    )
    parser.add_argument("--json", type=Path, help="also write every round's figures here")
    options = parser.parse_args()
    random.seed(0)
    model = resolve("smollm2-135m")
    if not isinstance(model, Path):
        raise SystemExit("smollm2-135m is not a file")
    peer: Peer | None = Peer(options.peer_python, model, options.threads)
    if peer is not None and not peer.ready:
        lacks = f"{options.peer_python} lacks torch, transformers, gguf or accelerate"
        print(f"no peer ({PEER}): {lacks}; our own figures only")
        peer.stop()
        peer = None
    daemon = Daemon(options.threads)
    try:
        table = report(measure(daemon, peer, options.rounds), options.threads)
    finally:
        daemon.stop()
        if peer is not None:
            peer.stop()
    if options.json:
        options.json.write_text(json.dumps(table, indent=1) + "\n")


if __name__ == "__main__":
    main()
