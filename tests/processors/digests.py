"""Run as a program: digests of everything that a logit can depend on, computed by this process's processor.

Prints one JSON object: for each case its SHA-256 and how many float64 values went into it. Inputs come from
generators without elementary functions, so that two processes begin with the same bits.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from unit.kernels import quantised_blocks
from unit.model import models
from zeroulp.model import operations
from zeroulp.model.composition.targets import Targets
from zeroulp.model.composition.text_batch import TextBatch
from zeroulp.model.compute_team import ComputeTeam
from zeroulp.model.configuration import Configuration
from zeroulp.model.context import NoGrad
from zeroulp.model.full_forward import full_forward
from zeroulp.model.initialisation import SplitMix64
from zeroulp.model.kernels import elementary
from zeroulp.model.kernels.arrays import F64
from zeroulp.model.kernels.jit import kernel
from zeroulp.model.parameters import Parameter, Values
from zeroulp.model.probabilities import log_probabilities
from zeroulp.model.recording import Recording
from zeroulp.model.sampling import SamplingParameters, draw
from zeroulp.model.tensors import backward

KNOWN = Path(__file__).parents[1] / "data" / "known-answers.json"
ARGUMENTS = 50_000
SHAPES = ((12, 2, 1, 7, 2, None), (40, 4, 2, 33, 1, 5), (24, 3, 3, 16, 3, None), (64, 8, 2, 99, 2, 11))
"""model_width, heads, kv_heads, feed_forward_width, layers, context_window"""


@kernel
def elementary_functions(x: F64, y: F64, out: F64) -> None:
    """Fill ``out [6, n]`` with every function, each over its own range of the units x and y."""
    for i in range(x.size):
        out[0, i] = elementary.exp((x[i] - 0.5) * 1480.0)
        out[1, i] = elementary.log(x[i] * 1e3 + 1e-300)
        out[2, i] = elementary.log1p(x[i] - 0.5)
        out[3, i] = elementary.sin((x[i] - 0.5) * 1e6)
        out[4, i] = elementary.cos((x[i] - 0.5) * 1e6)
        out[5, i] = elementary.power(x[i] * 1e4, (y[i] - 0.5) * 40.0)


def elementary_case() -> F64:
    stream = SplitMix64(1)
    out = np.empty((6, ARGUMENTS))
    elementary_functions(stream.units(ARGUMENTS), stream.units(ARGUMENTS), out)
    return out


def storage_cases(context: NoGrad) -> Iterator[tuple[str, F64]]:
    """Few and many rows times weights in every storage."""
    rng = np.random.default_rng(2)
    units = SplitMix64(3)
    matrices = {kind: quantised_blocks.matrix(rng, kind, 64, 45)[1] for kind in ("Q4_1", "Q8_0")}
    plain = units.units(64 * 45).reshape(64, 45) - 0.5
    single = plain.astype(np.float32)
    half = (single.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)
    given: dict[str, Values] = {
        "f64": plain,
        "f32": single.astype(np.float64),
        "bf16": half.astype(np.float64),
        **matrices,
    }
    for name, values in given.items():
        weight = Parameter("a weight", values)
        for rows in (1, 2, 5, 37):
            x = units.units(rows * 64).reshape(rows, 64) - 0.5
            yield f"linear {name}, {rows} rows", operations.linear(context, x, weight)[0].copy()


def model_cases(context: NoGrad) -> Iterator[tuple[str, F64]]:
    """Known answers and other shapes: full, prefilled, in single tokens, and what is drawn from them."""
    answers = json.loads(KNOWN.read_text())
    given = [(entry["name"], Configuration(**entry["config"]), entry["token_ids"]) for entry in answers]
    for index, (D, heads, kv_heads, F, layers, window) in enumerate(SHAPES):
        shape = Configuration(61, D, heads, kv_heads, F, layers, 128, 10000.0, 1e-6, window)
        ids = (SplitMix64(index).units(70) * 61).astype(np.int64).tolist()
        given.append((f"shape {index}", shape, ids))
    for index, (name, configuration, ids) in enumerate(given):
        model = models.seeded(configuration, 39 + index)
        z = full_forward(model, context, ids)
        yield f"{name}, full", z
        yield f"{name}, prefilled", models.prefill(model, context, ids)
        yield f"{name}, single tokens", models.by_single_tokens(model, context, ids)
        table = log_probabilities(context, z)
        yield f"{name}, log-probabilities", np.array([table.of(row, 1) for row in range(len(ids))])
        sampling = SamplingParameters(temperature=0.7, top_k=40, top_p=0.9, repetition_penalty=1.3)
        drawn = [draw(row, sampling, 5, ids, position) for position, row in enumerate(z)]
        yield f"{name}, drawn tokens", np.array(drawn, np.float64)


def gradient_case(team: ComputeTeam) -> F64:
    """All gradients of a small model's loss."""
    model = models.seeded(models.SMALL, 8)
    batch = TextBatch.packed([[[1, 5, 2, 9], [3, 3, 7]], [[8, 8, 1, 2, 3]]])
    backward(model.loss(Recording(team), batch, Targets.next_tokens(batch)))
    gradients = [node.gradient for node in model.parameters.values()]
    return np.concatenate([gradient.reshape(-1) for gradient in gradients if gradient is not None])


def cases() -> Iterator[tuple[str, F64]]:
    """Yield every case's name and values."""
    team = ComputeTeam(2)
    context = NoGrad(team)
    yield "elementary functions", elementary_case()
    yield from storage_cases(context)
    yield from model_cases(context)
    yield "gradients", gradient_case(team)


def digests() -> dict[str, tuple[str, int]]:
    """Return each case's SHA-256 and number of values."""
    return {
        name: (hashlib.sha256(values.astype("<f8").tobytes()).hexdigest(), values.size)
        for name, values in cases()
    }


if __name__ == "__main__":
    json.dump(digests(), sys.stdout)
