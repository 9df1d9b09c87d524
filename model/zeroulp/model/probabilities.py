"""Log-probabilities of vocabulary entries from rows of logits."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from zeroulp.model.context import NoGrad
from zeroulp.model.errors import NonFinite
from zeroulp.model.kernels import shared
from zeroulp.model.kernels.arrays import F64, I64
from zeroulp.model.sampling import best_entries


@dataclass(frozen=True, slots=True, eq=False)
class LogProbabilities:
    """Logits ``[rows, V]`` with each row's first maximum and ``log1p(tail)``."""

    z: F64
    best: I64
    log_tail: F64

    def of(self, row: int, token: int) -> float:
        """Return ``-((m - z[token]) + log1p(tail))``; raises ``NonFinite`` if the difference overflows."""
        nll = (float(self.z[row, self.best[row]]) - float(self.z[row, token])) + float(self.log_tail[row])
        if not math.isfinite(nll):
            raise NonFinite(None, "log_probability", row)
        return -nll

    def top(self, row: int, count: int) -> tuple[tuple[int, float], ...]:
        """Return the ``count`` most likely entries: descending, the lower id first among equals."""
        return tuple((int(token), self.of(row, int(token))) for token in best_entries(self.z[row], count))


def log_probabilities(context: NoGrad, z: F64) -> LogProbabilities:
    """Return the log-probabilities of logits ``[rows, V]``."""
    best, log_tail = np.empty(len(z), np.int64), np.empty(len(z))
    shared.log_normalisers(context.team.control, z, best, log_tail)
    return LogProbabilities(z, best, log_tail)
