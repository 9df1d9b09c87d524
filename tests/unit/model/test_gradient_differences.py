"""Gradients agree with central differences of the values that the forward's kernels compute.

Of the fourth order: the error with step h is about ``h**4 / 30`` (7e-18) times the fifth derivative, which
can be a million where norms divide by short rows, plus the rounding of the values over h (1e-15 / 2**-13):
some 1e-11 in all, of which 1e-9 of the largest entry keeps its distance.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from unit.model import models
from unit.model.backward_by_hand import ByHand
from unit.model.texts import drawn_targets
from zeroulp.model import gradients
from zeroulp.model.attention_gradients import attention
from zeroulp.model.composition.text_batch import TextBatch
from zeroulp.model.compute_team import ComputeTeam
from zeroulp.model.configuration import Configuration
from zeroulp.model.dropout import ReplayedDropout, SeededDropout
from zeroulp.model.kernels import shared
from zeroulp.model.kernels.arrays import F64
from zeroulp.model.kernels.cache_rows import layer_blocks, store_rows
from zeroulp.model.kernels.rope import rope_frequencies, rope_turns
from zeroulp.model.kernels.team import new_control
from zeroulp.model.loss import mean_nll
from zeroulp.model.recording import Recording
from zeroulp.model.tensors import backward

STEP = 2.0**-13
TOLERANCE = 1e-9
CONTROL = new_control()


def differences(value: Callable[[], float], x: F64) -> F64:
    """Return ``(8 (f(x + h) - f(x - h)) - (f(x + 2h) - f(x - 2h))) / 12h`` of each entry."""
    found = np.empty_like(x)
    for index in np.ndindex(x.shape):
        kept, values = x[index], []
        for steps in (1, -1, 2, -2):
            x[index] = kept + steps * STEP
            values.append(value())
        x[index] = kept
        found[index] = (8.0 * (values[0] - values[1]) - (values[2] - values[3])) / (12.0 * STEP)
    return found


def check(value: Callable[[], float], *pairs: tuple[F64, F64]) -> None:
    """Compare the gradient of each input; pairs are (input, gradient)."""
    for x, gradient in pairs:
        error = np.abs(differences(value, x) - gradient).max()
        assert error <= TOLERANCE * max(1.0, np.abs(gradient).max())


def weighed(y: F64, dy: F64) -> float:
    return float((y * dy).sum())


def test_rms_norm(rng: np.random.Generator) -> None:
    x, dy, gain = *rng.normal(size=(2, 3, 7)), rng.normal(size=7)

    def value() -> float:
        y = np.empty_like(x)
        shared.rms_norm(CONTROL, x, gain, 1e-3, y)
        return weighed(y, dy)

    dx, dgain = gradients.rms_norm(CONTROL, x, gain, 1e-3, dy)
    check(value, (x, dx), (gain, dgain))


def test_rotate(rng: np.random.Generator) -> None:
    x, dy = rng.normal(size=(2, 4, 12))
    frequencies, cosines, sines = np.empty(3), np.empty((4, 3)), np.empty((4, 3))
    rope_frequencies(1e4, 6, frequencies)
    rope_turns(np.array([0, 1, 9, 500]), frequencies, cosines, sines)

    def value() -> float:
        y = np.empty_like(x)
        shared.rotate(CONTROL, x, cosines, sines, y)
        return weighed(y, dy)

    check(value, (x, gradients.rotate(CONTROL, dy, cosines, sines)))


def test_swiglu(rng: np.random.Generator) -> None:
    gate, up, dy = rng.normal(size=(3, 5, 6)) * 2

    def value() -> float:
        y = np.empty_like(gate)
        shared.swiglu(CONTROL, gate, up, y)
        return weighed(y, dy)

    dgate, dup = gradients.swiglu(CONTROL, gate, up, dy)
    check(value, (gate, dgate), (up, dup))


def test_softmax(rng: np.random.Generator) -> None:
    x, dp = rng.normal(size=(2, 3, 9)) * 2

    p = np.empty_like(x)

    def value() -> float:
        shared.softmax(CONTROL, x, p)
        return weighed(p, dp)

    value()
    check(value, (x, gradients.softmax(CONTROL, p.copy(), dp)))


def test_loss(rng: np.random.Generator) -> None:
    z, targets, valid = rng.normal(size=(5, 11)) * 2, rng.integers(0, 11, 5), np.array([1, 0, 1, 1, 0], bool)
    dz = gradients.mean_nll(CONTROL, z, targets, valid, 1.5)
    check(lambda: 1.5 * mean_nll(CONTROL, z, targets, valid), (z, dz))


@pytest.mark.parametrize(("kv_heads", "group"), [(1, 1), (2, 3)])
@pytest.mark.parametrize("first", [[0, 0, 0, 0, 0, 0], [0, 0, 1, 2, 3, 4], [0, 0, 2, 2, 4, 5]])
def test_attention(rng: np.random.Generator, kv_heads: int, group: int, first: list[int]) -> None:
    width, scale, table = 4, 0.5, np.array([0])
    q, dmixed = rng.normal(size=(2, 6, kv_heads * group * width))
    k, v = rng.normal(size=(2, 6, kv_heads * width))
    ranges = np.array(first), np.arange(1, 7)

    def value() -> float:
        keys, values = layer_blocks(1, kv_heads, width)
        store_rows(k, v, 0, table, keys, values)
        y = np.empty_like(q)
        assert shared.attention(CONTROL, q, *ranges, table, keys, values, scale, y)
        return weighed(y, dmixed)

    dq, dk, dv = attention(CONTROL, q, k, v, width, *ranges, scale, dmixed)
    check(value, (q, dq), (k, dk), (v, dv))


def test_a_whole_model() -> None:
    model = models.seeded(Configuration(7, 4, 2, 1, 5, 2, 8, 1e4, 1e-3, 3), 3)
    hand = ByHand(model, CONTROL, [1, 2, 6, 1, 0], [2, 6, 1, 0, 0])
    for name, gradient in hand.run()[1].items():
        parameter = model.parameters[name]
        values = parameter.values()

        def value(parameter=parameter, values=values) -> float:  # type: ignore[no-untyped-def]
            parameter.set_value(values)
            return hand.run()[0]

        check(value, (values, gradient))
        parameter.set_value(values)


@pytest.mark.parametrize("recompute", [False, True])
def test_a_recorded_model_that_drops_packs_and_pads(rng: np.random.Generator, recompute: bool) -> None:
    model = models.with_gains(Configuration(11, 16, 4, 2, 9, 3, 16, 1e4, 1e-3, 4), 8)
    batch = TextBatch.packed([[[1, 2, 6, 1, 0], [10, 1, 4]], [[3, 9, 9, 2, 5, 7]]])
    targets = drawn_targets(batch, rng, 11)
    recorded = Recording.with_dropout(ComputeTeam(1), SeededDropout(0.2, 5), recompute=recompute)
    loss = model.loss(recorded, batch, targets)
    backward(loss)
    replay = ReplayedDropout(recorded.masks.drawn)

    def value() -> float:
        context = Recording.with_dropout(recorded.team, replay)
        return model.loss(context, batch, targets).item()

    assert value() == loss.item()
    for node in model.parameters.values():
        kept, gradient = node.values(), node.gradient
        assert gradient is not None
        for index in {tuple(rng.integers(0, node.shape).tolist()) for _ in range(4)}:
            values = []
            for steps in (1, -1, 2, -2):
                moved = kept.copy()
                moved[index] += steps * STEP
                node.set_value(moved)
                values.append(value())
            slope = (8.0 * (values[0] - values[1]) - (values[2] - values[3])) / (12.0 * STEP)
            assert abs(slope - gradient[index]) <= TOLERANCE * max(1.0, np.abs(gradient).max()), node.name
        node.set_value(kept)
