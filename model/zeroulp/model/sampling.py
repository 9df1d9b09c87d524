"""Drawing a token: a function of logits, parameters, seed, position and the tokens before.

It depends on nothing else.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from zeroulp.model.errors import InvalidArgument, NonFinite
from zeroulp.model.initialisation import keyed_unit
from zeroulp.model.kernels.arrays import F64, I64
from zeroulp.model.kernels.sampling import draw_ascending, nucleus, tempered

GREEDY_BELOW = 1e-5
"""Temperatures under this are greedy, so that equal maxima resolve alike at zero and at next to nothing."""


@dataclass(frozen=True, slots=True)
class SamplingParameters:
    """How tokens are drawn; the defaults draw from the model's own distribution.

    Raises ``InvalidArgument`` naming the field, its value and what is allowed.
    """

    temperature: float = 1.0
    top_k: int = 0
    """0 keeps all."""
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0

    def __post_init__(self) -> None:
        self._require("temperature", 0.0 <= self.temperature < math.inf, "finite and at least 0")
        self._require("top_k", self.top_k >= 0, "at least 0")
        self._require("top_p", 0.0 < self.top_p <= 1.0, "above 0 and at most 1")
        self._require("min_p", 0.0 <= self.min_p <= 1.0, "from 0 to 1")
        self._require("repetition_penalty", 0.0 < self.repetition_penalty < math.inf, "finite and above 0")
        self._require("presence_penalty", math.isfinite(self.presence_penalty), "finite")
        self._require("frequency_penalty", math.isfinite(self.frequency_penalty), "finite")

    def _require(self, name: str, holds: bool, rule: str) -> None:
        if not holds:
            raise InvalidArgument(
                f"{name} is {getattr(self, name)}; it must be {rule}", field=f"sampling.{name}"
            )

    @property
    def greedy(self) -> bool:
        """Whether the lowest id among equal maxima is taken."""
        return self.temperature < GREEDY_BELOW


def draw(z: F64, parameters: SamplingParameters, seed: int, tokens: Sequence[int], start: int) -> int:
    """Return the token for position ``len(tokens)`` from its logits ``z [V]``.

    ``tokens`` are all tokens before it, those from ``start`` on were generated. In order: penalties,
    temperature, top-k, min-p, top-p, then one draw keyed by seed and position against the kept weights'
    ascending cumulative sums (ids ascending). Raises ``NonFinite`` if a penalty overflows.
    """
    z = penalised(z, parameters, tokens, start)
    if not np.isfinite(z).all():
        # no order is left to draw by: a maximum that is infinite makes every weight NaN
        raise NonFinite(None, "penalties", 0)
    if parameters.greedy:
        return int(np.argmax(z))  # numpy returns the first of equal maxima
    weights = np.empty_like(z)
    tempered(z, parameters.temperature, weights)
    kept = _filtered(z, weights, parameters)
    return int(draw_ascending(weights, kept, keyed_unit(seed, len(tokens))))


def penalised(z: F64, parameters: SamplingParameters, tokens: Sequence[int], start: int) -> F64:
    """Return the logits with each penalty applied once per id.

    Repetition looks at all tokens and divides positive logits, multiplies others. Presence subtracts
    once from ids that were generated, frequency once its value times their count.
    """
    repeats = parameters.repetition_penalty != 1.0
    subtracts = parameters.presence_penalty != 0.0 or parameters.frequency_penalty != 0.0
    if not repeats and not subtracts:
        return z
    z = z.copy()
    with np.errstate(over="ignore", invalid="ignore"):  # ``draw`` looks for what is not finite
        if repeats:
            seen = np.unique(np.array(tokens, np.int64))
            penalty = parameters.repetition_penalty
            z[seen] = np.where(z[seen] > 0.0, z[seen] / penalty, z[seen] * penalty)
        if subtracts:
            for token, count in Counter(tokens[start:]).items():
                z[token] -= parameters.presence_penalty + parameters.frequency_penalty * count
    return z


def _filtered(z: F64, weights: F64, parameters: SamplingParameters) -> I64:
    """Return the ids that top-k, min-p and top-p keep, ascending."""
    kept: I64 = np.arange(z.size, dtype=np.int64)
    if 0 < parameters.top_k < z.size:
        kept = np.sort(best_entries(z, parameters.top_k))
    if parameters.min_p > 0.0:
        kept = kept[weights[kept] >= parameters.min_p]  # the largest weight is exactly 1
    if parameters.top_p < 1.0:
        ranked = kept[np.argsort(-z[kept], kind="stable")]
        kept = np.sort(ranked[: nucleus(weights, ranked, parameters.top_p)])
    return kept


def best_entries(z: F64, count: int) -> I64:
    """Return the ids of the ``count`` largest logits, descending, the lower id first among equals."""
    count = min(count, z.size)
    threshold = np.partition(z, z.size - count)[z.size - count]
    candidates = np.flatnonzero(z >= threshold)  # ascending ids
    return candidates[np.argsort(-z[candidates], kind="stable")][:count].astype(np.int64)
