"""Measure the daemon over gRPC, and peers in the same run where they are at hand.

Rounds alternate between daemon and peers, so that a machine that changes its speed changes it for all;
medians are compared. Nothing here is asserted.
"""

from __future__ import annotations

import argparse
import json
import platform
import random
import statistics
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.daemon import Daemon
from benchmarks.peer import PEERS, Peer
from benchmarks.roofline import roofline
from zeroulp.model.library.resolve import resolve

OURS = "zeroulp"
FIGURES: dict[str, tuple[str, int, int]] = {
    "prefill 32": ("prefill", 32, 1),
    "prefill 128": ("prefill", 128, 1),
    "prefill 512": ("prefill", 512, 1),
    "decode, 1 session": ("decode", 24, 1),
    "decode, 8 sessions": ("decode", 32, 8),
    "decode, 32 sessions": ("decode", 24, 32),
}
"""Method, tokens, rows."""
CONTEXTS = (32, 128, 512, 1024, 2048)
SHORT = ("prefill 512", "decode, 1 session", "decode, 8 sessions")

Rates = dict[str, dict[str, list[float]]]


def measure(systems: dict[str, Daemon | Peer], names: Sequence[str], rounds: int) -> Rates:
    """Return tokens per second of every round, by figure and system."""
    rates: Rates = {name: {system: [] for system in systems} for name in names}
    for done in range(rounds + 1):
        for name in names:
            method, tokens, rows = FIGURES[name]
            for system, at_hand in systems.items():
                progress(f"round {done} of {rounds}: {name}, {system}")
                run: Callable[[int, int], float] = getattr(at_hand, method)
                seconds = run(tokens, rows)
                if done:  # the first round warms up
                    rates[name][system].append(tokens * rows / seconds)
    progress("")
    return rates


def progress(text: str) -> None:
    """Show what is being done, over what was shown before."""
    print(f"\r{text:70}\r", end="", file=sys.stderr, flush=True)


def show(rates: Rates) -> None:
    """Print medians and ratios."""
    peers = [system for system in next(iter(rates.values())) if system != OURS]
    print(
        f"{'tokens/s, medians':22} {OURS:>9} {'min..max':>15}"
        + "".join(f" {p:>18} {'ratio':>6}" for p in peers)
    )
    for name, systems in rates.items():
        ours = statistics.median(systems[OURS])
        spread = f"{min(systems[OURS]):.1f}..{max(systems[OURS]):.1f}"
        line = f"{name:22} {ours:9.1f} {spread:>15}"
        for peer in peers:
            theirs = statistics.median(systems[peer])
            line += f" {theirs:18.1f} {ours / theirs:6.2f}"
        print(line)


def alone(daemon: Daemon) -> dict[str, float]:
    """Return what has no peer: the cost against the context's length, waiting under load, memory."""
    figures = {}
    for context in CONTEXTS:
        progress(f"decode at context {context}")
        figures[f"ms a token at context {context}"] = daemon.decode_at(context, 8) * 1e3
    for streams in (0, 8):
        progress(f"first token beside {streams} streams")
        figures[f"ms to the first token of 128, beside {streams} streams"] = (
            daemon.first_token(128, streams) * 1e3
        )
    figures["resident MB at the end"] = daemon.resident_bytes / 1e6
    progress("")
    return figures


def systems_at_hand(python: str, model: Path, threads: int) -> dict[str, Daemon | Peer]:
    """Return the daemon and the peers that the given Python can run; tell of the others."""
    found: dict[str, Daemon | Peer] = {OURS: Daemon(threads)}
    for kind in PEERS:
        progress(f"starting {kind.name}")
        peer = Peer(kind, python, model, threads)
        if peer.ready:
            found[kind.name] = peer
            continue
        peer.stop()
        print(f"no peer {kind.name}: {python} lacks {kind.needs}")
    return found


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--peer-python", default=sys.executable, help="a Python that has the peers")
    parser.add_argument("--short", action="store_true", help=f"only {'; '.join(SHORT)}")
    parser.add_argument("--json", type=Path, help="also write every round's figures here")
    options = parser.parse_args()
    random.seed(0)
    model = resolve("smollm2-135m")
    if not isinstance(model, Path):
        raise SystemExit("smollm2-135m is not a file")
    table: dict[str, Any] = {"threads": options.threads, "processor": platform.processor()}
    if not options.short:
        progress("what the machine can do")
        table["roofline"] = roofline(options.threads)
        for name, value in table["roofline"].items():
            print(f"{name:60} {value:8.2f} e9/s")
    systems = systems_at_hand(options.peer_python, model, options.threads)
    try:
        table["rates"] = measure(systems, SHORT if options.short else list(FIGURES), options.rounds)
        show(table["rates"])
        daemon = systems[OURS]
        if not options.short and isinstance(daemon, Daemon):
            table["alone"] = alone(daemon)
            for name, value in table["alone"].items():
                print(f"{name:60} {value:8.1f}")
    finally:
        for system in systems.values():
            system.stop()
    if options.json:
        options.json.write_text(json.dumps(table, indent=1) + "\n")


if __name__ == "__main__":
    main()
