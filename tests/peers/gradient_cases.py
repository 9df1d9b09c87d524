"""Inputs whose gradients another automatic differentiation is asked for; drawn, so that none are stored."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from zeroulp.model.configuration import Configuration
from zeroulp.model.initialisation import SplitMix64
from zeroulp.model.kernels.arrays import F64, I64

Inputs = dict[str, Any]
HEAD_WIDTH = 4


def draws(seed: int, *shape: int, scale: float = 1.0) -> F64:
    """Numbers in [-scale, scale)."""
    return (scale * (2.0 * SplitMix64(seed).units(math.prod(shape)) - 1.0)).reshape(shape)


def _attention(kv_heads: int, group: int, documents: list[int], window: int, seed: int) -> Inputs:
    rows = sum(documents)
    starts = np.repeat(np.cumsum([0, *documents[:-1]]), documents)
    positions: I64 = np.arange(rows)
    width, kv_width = kv_heads * group * HEAD_WIDTH, kv_heads * HEAD_WIDTH
    return {
        "q": draws(seed, rows, width, scale=3.0),
        "k": draws(seed + 1, rows, kv_width, scale=3.0),
        "v": draws(seed + 2, rows, kv_width),
        "first": np.maximum(starts, positions - window + 1),
        "last": positions + 1,
        "dmixed": draws(seed + 3, rows, width),
    }


OPERATIONS: dict[str, Inputs] = {
    "linear": {"x": draws(1, 7, 5), "w": draws(2, 5, 9), "dy": draws(3, 7, 9)},
    "embedding": {"table": draws(4, 6, 4), "ids": np.array([5, 0, 5, 2, 5]), "dx": draws(5, 5, 4)},
    "rms_norm": {"x": draws(6, 5, 9, scale=3.0), "gain": draws(7, 9), "dy": draws(8, 5, 9)},
    "rotate": {"x": draws(9, 5, 12), "positions": np.array([0, 1, 2, 7, 1000]), "dy": draws(10, 5, 12)},
    "attention": _attention(1, 1, [9], 9, 11),
    "attention, grouped, window": _attention(2, 3, [11], 4, 21),
    "attention, packed": _attention(2, 2, [3, 1, 5], 9, 31),
    "swiglu": {"gate": draws(41, 6, 7, scale=30.0), "up": draws(42, 6, 7), "dy": draws(43, 6, 7)},
    "softmax": {"x": draws(44, 4, 9, scale=5.0), "dp": draws(45, 4, 9)},
    "mean_nll": {
        "z": draws(46, 6, 13, scale=5.0),
        "targets": np.array([3, 12, 0, 0, 7, 7]),
        "valid": np.array([True, True, False, True, False, True]),
    },
}

MODELS: dict[str, tuple[Configuration, int, list[int], list[int]]] = {
    "boundary-39": (Configuration(258, 4, 1, 1, 8, 2, 8, 1e4, 1e-6), 39, [0, 99, 100], [99, 100, 1]),
    "grouped, window": (
        Configuration(13, 8, 4, 2, 11, 2, 16, 1e4, 1e-5, 3), 5,
        [1, 2, 12, 1, 5, 0, 2, 2], [2, 12, 1, 5, 0, 2, 2, 9],
    ),
}  # fmt: skip
"""Configuration, seed, token ids, targets."""
