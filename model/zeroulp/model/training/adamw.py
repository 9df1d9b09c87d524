"""Adam with decoupled weight decay, scalar by scalar in a defined order."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from zeroulp.model.errors import GradientMissing, UpdateNotFinite
from zeroulp.model.kernels.arrays import F64
from zeroulp.model.parameters import Parameter


@dataclass(frozen=True, slots=True, eq=False)
class _Moments:
    """Running means of a parameter's gradient and of its square."""

    first: F64
    second: F64


class AdamW:
    """Moves the given parameters; its moments belong to the nodes and start at +0.0.

    One step takes each scalar w with its gradient g through these, in this order, every operation rounded
    once; the powers start at 1.0, and no exponentiation is behind them::

        power1 = power1 * beta1
        power2 = power2 * beta2
        m = beta1 * m + (1 - beta1) * g
        v = beta2 * v + ((1 - beta2) * g) * g
        d = (m / (1 - power1)) / (sqrt(v / (1 - power2)) + epsilon)
        w = (w - (rate * decay) * w) - rate * d

    Scalars do not depend on each other, so neither do their bits. Raises ``ValueError`` for settings with
    which that is not defined.
    """

    def __init__(
        self,
        parameters: Iterable[Parameter],
        rate: float,
        *,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-8,
        decay: float = 0.01,
    ) -> None:
        _check("rate", rate, 0.0 < rate < math.inf, "above 0 and finite")
        _check("beta1", beta1, 0.0 <= beta1 < 1.0, "at least 0 and below 1")
        _check("beta2", beta2, 0.0 <= beta2 < 1.0, "at least 0 and below 1")
        _check("epsilon", epsilon, 0.0 < epsilon < math.inf, "above 0 and finite")
        _check("decay", decay, 0.0 <= decay < math.inf, "at least 0 and finite")
        self.rate = rate
        self._betas = beta1, beta2
        self._epsilon = epsilon
        self._decay = decay
        self._powers = 1.0, 1.0
        self._moments = {node: _Moments(np.zeros(node.shape), np.zeros(node.shape)) for node in parameters}

    def clear_gradients(self) -> None:
        """Forget what backward passes have added up in the parameters."""
        for node in self._moments:
            node.clear_gradient()

    def step(self) -> None:
        """Move every parameter once, which advances its revision once, and use its gradient up.

        Raises ``GradientMissing`` or ``UpdateNotFinite`` with no parameter, moment or gradient changed.
        """
        powers = self._powers[0] * self._betas[0], self._powers[1] * self._betas[1]
        moved = {node: self._moved(node, moments, powers) for node, moments in self._moments.items()}
        self._powers = powers
        for node, (values, moments) in moved.items():
            node.set_value(values)
            self._moments[node] = moments
        self.clear_gradients()

    def _moved(self, node: Parameter, moments: _Moments, powers: tuple[float, float]) -> tuple[F64, _Moments]:
        """Return the parameter's next values and moments."""
        g = node.gradient
        if g is None:
            raise GradientMissing(
                f"{node.label} has no gradient; run a loss of it and its backward pass first"
            )
        if not np.isfinite(g).all():
            raise UpdateNotFinite(f"the gradient of {node.label} is not finite; no parameter has moved")
        beta1, beta2 = self._betas
        w = node.values()
        with np.errstate(over="ignore", invalid="ignore"):  # what overflows is refused below
            m = beta1 * moments.first + (1.0 - beta1) * g
            v = beta2 * moments.second + ((1.0 - beta2) * g) * g
            d = (m / (1.0 - powers[0])) / (np.sqrt(v / (1.0 - powers[1])) + self._epsilon)
            w = (w - (self.rate * self._decay) * w) - self.rate * d
        if not (np.isfinite(v).all() and np.isfinite(w).all()):
            raise UpdateNotFinite(
                f"the step would take {node.label} out of the finite numbers; none has moved"
            )
        return w, _Moments(m, v)


def _check(name: str, value: float, allowed: bool, rule: str) -> None:
    if not allowed:
        raise ValueError(f"{name} is {value}; it must be {rule}")
