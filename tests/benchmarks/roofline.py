"""What the machine can do, and what our kernels do of it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import numpy as np

from zeroulp.model.compute_team import ComputeTeam
from zeroulp.model.context import NoGrad
from zeroulp.model.kernels.arrays import F64
from zeroulp.model.loading import load
from zeroulp.model.operations import linear
from zeroulp.model.parameters import Parameter

_RUNS = 15


def best(run: Callable[[], object]) -> float:
    """Return the seconds of the fastest of some runs: what the machine can do, undisturbed."""
    run()
    seconds = []
    for _ in range(_RUNS):
        start = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def stream_bytes() -> float:
    """Return the bytes a second that one core reads from memory."""
    words = np.ones(32 * 1024 * 1024)
    return float(words.nbytes / best(lambda: words.max()))


def products(context: NoGrad, weight: Parameter, rows: int) -> float:
    """Return the products a second of ``rows`` rows times a weight."""
    x: F64 = np.random.default_rng(0).normal(size=(rows, weight.shape[0]))

    def run() -> None:
        context.workspace.turn()
        linear(context, x, weight)

    with context.team.awake():
        return float(rows * weight.size / best(run))


def roofline(threads: int) -> dict[str, float]:
    """Return the figures, in 10^9 a second. DGEMM is numpy's, on all cores it takes."""
    model = load("smollm2-135m").model
    gate = model.parameters["blocks.0.ffn.gate.weight"]
    wide = Parameter("a weight", np.random.default_rng(0).normal(size=gate.shape))
    a, b = np.random.default_rng(1).normal(size=(2, 1024, 1024))
    figures = {
        "memory read, one core, GB": stream_bytes(),
        f"DGEMM 1024, {os.environ.get('OPENBLAS_NUM_THREADS', 'all')} threads, products": 1024**3
        / best(lambda: np.dot(a, b)),
    }
    for count in sorted({1, threads}):
        context = NoGrad(ComputeTeam(count))
        figures[f"512 rows, f64 weights, {count} threads, products"] = products(context, wide, 512)
        figures[f"1 row, f64 weights, {count} threads, products"] = products(context, wide, 1)
        figures[f"1 row, Q4_1 weights, {count} threads, products"] = products(context, gate, 1)
        figures[f"8 rows, Q4_1 weights, {count} threads, products"] = products(context, gate, 8)
    return {name: value / 1e9 for name, value in figures.items()}
