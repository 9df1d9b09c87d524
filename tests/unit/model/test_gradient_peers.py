"""Gradients agree with torch's autograd in float64: as it was recorded, and live where torch is installed."""

from __future__ import annotations

import functools
import importlib.util
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from peers import record_gradients
from peers.gradient_cases import HEAD_WIDTH, MODELS, OPERATIONS, Inputs
from unit.model import models
from unit.model.backward_by_hand import ByHand
from zeroulp.model import gradients
from zeroulp.model.attention_gradients import attention
from zeroulp.model.composition.language_model import LanguageModel
from zeroulp.model.composition.targets import Targets
from zeroulp.model.composition.text_batch import TextBatch
from zeroulp.model.compute_team import ComputeTeam
from zeroulp.model.kernels import shared
from zeroulp.model.kernels.arrays import F64
from zeroulp.model.kernels.rope import rope_frequencies, rope_turns
from zeroulp.model.kernels.team import new_control
from zeroulp.model.loss import mean_nll
from zeroulp.model.packing import pack
from zeroulp.model.parameters import TABLE
from zeroulp.model.recording import Recording
from zeroulp.model.tensors import backward

TOLERANCE = 1e-12
"""Of an array's largest entry. Both sides are binary64; they differ in the order of sums of up to 258 terms,
through two blocks at most: some 1e-15 were measured. Another processor's BLAS has another order."""

CONTROL = new_control()
Answer = dict[str, Any]


@functools.cache
def recorded() -> dict[str, Answer]:
    file = Path(__file__).parents[2] / "data" / "torch-gradients.json"
    return dict(json.loads(file.read_text())["cases"])


live = functools.cache(record_gradients.answers)
SOURCES = [recorded, live] if importlib.util.find_spec("torch") else [recorded]


def linear(x: F64, w: F64, dy: F64) -> Answer:
    dx = gradients.linear_input(CONTROL, dy, pack(w))
    return {"dx": dx, "dw": gradients.linear_weight(CONTROL, x, dy)}


def embedding(table: F64, ids: Any, dx: F64) -> Answer:
    return {"dtable": gradients.embedding_weight(CONTROL, ids, dx, len(table))}


def rms_norm(x: F64, gain: F64, dy: F64) -> Answer:
    dx, dgain = gradients.rms_norm(CONTROL, x, gain, 1e-6, dy)
    return {"dx": dx, "dgain": dgain}


def rotate(x: F64, positions: Any, dy: F64) -> Answer:
    frequencies, turns = np.empty(HEAD_WIDTH // 2), np.empty((2, len(x), HEAD_WIDTH // 2))
    rope_frequencies(1e4, HEAD_WIDTH, frequencies)
    rope_turns(positions, frequencies, *turns)
    return {"dx": gradients.rotate(CONTROL, dy, *turns)}


def attend(q: F64, k: F64, v: F64, first: Any, last: Any, dmixed: F64) -> Answer:
    scale = 1.0 / HEAD_WIDTH**0.5
    found = attention(CONTROL, q, k, v, HEAD_WIDTH, first, last, scale, dmixed)
    return dict(zip(("dq", "dk", "dv"), found, strict=True))


def swiglu(gate: F64, up: F64, dy: F64) -> Answer:
    dgate, dup = gradients.swiglu(CONTROL, gate, up, dy)
    return {"dgate": dgate, "dup": dup}


def softmax(x: F64, dp: F64) -> Answer:
    p = np.empty_like(x)
    shared.softmax(CONTROL, x, p)
    return {"dx": gradients.softmax(CONTROL, p, dp)}


def loss(z: F64, targets: Any, valid: Any) -> Answer:
    dz = gradients.mean_nll(CONTROL, z, targets, valid, 1.0)
    return {"loss": mean_nll(CONTROL, z, targets, valid), "dz": dz}


OURS: dict[str, Callable[..., Answer]] = {
    "linear": linear,
    "embedding": embedding,
    "rms_norm": rms_norm,
    "rotate": rotate,
    "attention": attend,
    "swiglu": swiglu,
    "softmax": softmax,
    "mean_nll": loss,
}


def close(ours: Answer, theirs: Answer) -> None:
    assert ours.keys() == theirs.keys()
    for name, want in theirs.items():
        assert np.shape(ours[name]) == np.shape(want), name
        assert np.abs(np.subtract(ours[name], want)).max() <= TOLERANCE * np.abs(want).max(), name


def test_every_case_was_recorded() -> None:
    assert recorded().keys() == OPERATIONS.keys() | MODELS.keys()


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: "live" if source is live else "recorded")
@pytest.mark.parametrize(("name", "case"), OPERATIONS.items(), ids=OPERATIONS)
def test_operations(name: str, case: Inputs, source: Callable[[], dict[str, Answer]]) -> None:
    close(OURS[name.split(",")[0]](**case), source()[name])


def by_hand(model: LanguageModel, ids: list[int], targets: list[int]) -> Answer:
    value, found = ByHand(model, CONTROL, ids, targets).run()
    return {"loss": value, **found}


def recorded_graph(model: LanguageModel, ids: list[int], targets: list[int]) -> Answer:
    counted = Targets(np.array([targets]), np.ones((1, len(ids)), bool))
    loss = model.loss(Recording(ComputeTeam(1)), TextBatch.of([ids]), counted)
    backward(loss)
    return {"loss": loss.item(), **{name: node.gradient for name, node in model.parameters.items()}}


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: "live" if source is live else "recorded")
@pytest.mark.parametrize("ours", [by_hand, recorded_graph])
@pytest.mark.parametrize("name", MODELS)
def test_models(name: str, ours: Callable[..., Answer], source: Callable[[], dict[str, Answer]]) -> None:
    configuration, seed, ids, targets = MODELS[name]
    close(ours(models.seeded(configuration, seed), ids, targets), source()[name])


def test_the_figures_of_the_fixture() -> None:
    configuration, seed, ids, targets = MODELS["boundary-39"]
    value, found = ByHand(models.seeded(configuration, seed), CONTROL, ids, targets).run()
    assert value.hex() == float.fromhex("0x1.6ac70bf03b620p+2").hex()
    assert f"{found[TABLE][99, 0]:.11f}" == "0.02116755456"
