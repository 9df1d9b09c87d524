"""AdamW agrees with its definition in every bit, and moves all parameters or none."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from naive.adamw import adamw
from zeroulp.model.errors import GradientMissing, UpdateNotFinite, UpdateRefused
from zeroulp.model.kernels.arrays import F64
from zeroulp.model.parameters import TABLE, Parameter
from zeroulp.model.training import AdamW

SHAPES: dict[str, tuple[int, ...]] = {TABLE: (5, 3), "gain": (3,), "weight": (3, 11)}
LARGEST = float(np.finfo(np.float64).max)


def nodes(seed: int) -> list[Parameter]:
    rng = np.random.default_rng(seed)
    return [Parameter(name, rng.normal(size=shape)) for name, shape in SHAPES.items()]


def drawn(rng: np.random.Generator, node: Parameter) -> F64:
    """Gradients of many magnitudes, some of them zeros of either sign."""
    values = rng.normal(size=node.shape) * 2.0 ** rng.integers(-30, 30, node.shape)
    return np.where(rng.random(node.shape) < 0.1, np.copysign(0.0, values), values)


def take_step(optimizer: AdamW, parameters: list[Parameter], rng: np.random.Generator) -> list[F64]:
    made = [drawn(rng, node) for node in parameters]
    for node, gradient in zip(parameters, made, strict=True):
        node.add_gradient(gradient)
    optimizer.step()
    return made


def bits(parameters: list[Parameter]) -> list[bytes]:
    return [node.values().tobytes() for node in parameters]


betas = st.floats(0.0, 1.0, exclude_max=True)


@settings(max_examples=50)
@given(
    rate=st.floats(1e-6, 1.0),
    beta1=betas,
    beta2=betas,
    epsilon=st.floats(1e-12, 1e-2),
    decay=st.floats(0.0, 1.0),
    steps=st.integers(1, 6),
    seed=st.integers(0, 2**32),
)
def test_every_scalar_follows_the_definition(
    rate: float, beta1: float, beta2: float, epsilon: float, decay: float, steps: int, seed: int
) -> None:
    parameters, rng = nodes(seed), np.random.default_rng(seed)
    before = [node.values() for node in parameters]
    options = {"beta1": beta1, "beta2": beta2, "epsilon": epsilon, "decay": decay}
    optimizer = AdamW(parameters, rate, **options)
    gradients = [take_step(optimizer, parameters, rng) for _ in range(steps)]
    for index, node in enumerate(parameters):
        history = np.array([step[index].ravel() for step in gradients]).T.tolist()  # [scalars, steps]
        want = [
            adamw(w, g, rate=rate, **options) for w, g in zip(before[index].ravel(), history, strict=True)
        ]
        assert node.values().tobytes() == np.array(want).tobytes()


def test_a_step_advances_each_revision_once_and_uses_the_gradients_up(rng: np.random.Generator) -> None:
    parameters = nodes(1)
    optimizer = AdamW(parameters, 0.1)
    for steps in (1, 2, 3):
        take_step(optimizer, parameters, rng)
        assert [node.revision for node in parameters] == [steps] * 3
        assert [node.gradient for node in parameters] == [None] * 3
    with pytest.raises(GradientMissing, match=r"parameter token_embedding\.weight has no gradient"):
        optimizer.step()


def test_gradients_are_added_up_until_the_step() -> None:
    once, twice = nodes(1), nodes(1)
    for node in once:
        node.add_gradient(np.full(node.shape, 0.75))
    for node in twice:
        node.add_gradient(np.full(node.shape, 0.5))
        node.add_gradient(np.full(node.shape, 0.25))
    for parameters in (once, twice):
        AdamW(parameters, 0.1).step()
    assert bits(once) == bits(twice)


def test_what_is_not_given_stays(rng: np.random.Generator) -> None:
    parameters = nodes(1)
    untouched = parameters[0].values().tobytes()
    take_step(AdamW(parameters[1:], 0.1), parameters, rng)
    assert (parameters[0].values().tobytes(), parameters[0].revision) == (untouched, 0)


def _missing(node: Parameter) -> None:
    node.clear_gradient()


def _nan(node: Parameter) -> None:
    node.add_gradient(np.full(node.shape, math.nan))


def _one_infinity(node: Parameter) -> None:
    more = np.zeros(node.shape)
    more[-1] = -math.inf
    node.add_gradient(more)


def _square_overflows(node: Parameter) -> None:
    node.add_gradient(np.full(node.shape, 1e200))


REFUSED: list[tuple[type[UpdateRefused], str, Callable[[Parameter], None]]] = [
    (GradientMissing, "parameter weight has no gradient", _missing),
    (UpdateNotFinite, "the gradient of parameter weight is not finite", _nan),
    (UpdateNotFinite, "the gradient of parameter weight is not finite", _one_infinity),
    (UpdateNotFinite, "would take parameter weight out of the finite numbers", _square_overflows),
]


@pytest.mark.parametrize(("error", "message", "spoil"), REFUSED)
def test_a_refused_step_changes_nothing(
    error: type[UpdateRefused], message: str, spoil: Callable[[Parameter], None]
) -> None:
    """The last parameter is at fault, so all others were fine; the next step shows that moments stayed."""
    parameters, undisturbed = nodes(2), nodes(2)
    optimizer, other = AdamW(parameters, 0.1), AdamW(undisturbed, 0.1)
    take_step(optimizer, parameters, np.random.default_rng(3))
    take_step(other, undisturbed, np.random.default_rng(3))
    before = bits(parameters)
    for node in parameters:
        node.add_gradient(np.ones(node.shape))
    spoil(parameters[-1])
    with pytest.raises(error, match=message):
        optimizer.step()
    assert bits(parameters) == before
    assert [node.revision for node in parameters] == [1, 1, 1]
    assert parameters[0].gradient is not None
    optimizer.clear_gradients()
    take_step(optimizer, parameters, np.random.default_rng(4))
    take_step(other, undisturbed, np.random.default_rng(4))
    assert bits(parameters) == bits(undisturbed)


def test_values_that_would_overflow_are_refused() -> None:
    node = Parameter("gain", np.array([LARGEST]))
    node.add_gradient(np.array([-1.0]))
    optimizer = AdamW([node], LARGEST, decay=0.0)
    with pytest.raises(UpdateNotFinite, match="out of the finite numbers"):
        optimizer.step()
    assert node.values().tolist() == [LARGEST]


@pytest.mark.parametrize(
    ("name", "value", "rule"),
    [
        ("rate", 0.0, "above 0 and finite"),
        ("rate", math.nan, "above 0 and finite"),
        ("beta1", 1.0, "at least 0 and below 1"),
        ("beta2", -0.1, "at least 0 and below 1"),
        ("epsilon", 0.0, "above 0 and finite"),
        ("decay", math.inf, "at least 0 and finite"),
    ],
)
def test_settings_that_define_no_step(name: str, value: float, rule: str) -> None:
    with pytest.raises(ValueError, match=f"{name} is {value}; it must be {rule}"):
        AdamW([], **({"rate": 0.1} | {name: value}))
