"""AdamW on one scalar, as its definition is written."""

from __future__ import annotations

import math
from collections.abc import Sequence


def adamw(
    w: float,
    gradients: Sequence[float],
    *,
    rate: float,
    beta1: float,
    beta2: float,
    epsilon: float,
    decay: float,
) -> float:
    """Return the scalar after a step for each gradient."""
    power1, power2, m, v = 1.0, 1.0, 0.0, 0.0
    for g in gradients:
        power1 = power1 * beta1
        power2 = power2 * beta2
        m = beta1 * m + (1 - beta1) * g
        v = beta2 * v + ((1 - beta2) * g) * g
        d = (m / (1 - power1)) / (math.sqrt(v / (1 - power2)) + epsilon)
        w = (w - (rate * decay) * w) - rate * d
    return w
