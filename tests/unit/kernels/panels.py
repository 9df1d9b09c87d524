"""The same weights in each of the three storages."""

from __future__ import annotations

import numpy as np

from zeroulp.model.kernels.arrays import F64
from zeroulp.model.kernels.vectors import LANES
from zeroulp.model.packing import PackedMatrix

STORAGES = ("f64", "f32", "bf16")


def representable(rng: np.random.Generator, shape: tuple[int, ...], storage: str) -> F64:
    """Return values that the storage, and no narrower one, holds exactly."""
    values = rng.uniform(-1, 1, shape) * 2.0 ** rng.integers(-20, 20, shape)
    if storage == "f64":
        return values
    singles = values.astype(np.float32)
    if storage == "bf16":
        singles = (singles.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)
    return singles.astype(np.float64)


def packed_as(values: F64, storage: str) -> PackedMatrix:
    """Pack values by hand, element by element, in a given storage that must hold them."""
    depth, width = values.shape
    panels = np.zeros((-(-width // LANES), depth, LANES))
    for n in range(width):
        panels[n // LANES, :, n % LANES] = values[:, n]
    flat = panels.ravel()
    if storage == "f64":
        return PackedMatrix(depth, width, flat)
    singles = flat.astype(np.float32)
    assert singles.astype(np.float64).tobytes() == flat.tobytes()
    if storage == "f32":
        return PackedMatrix(depth, width, singles)
    halves = (singles.view(np.uint32) >> np.uint32(16)).astype(np.uint16)
    assert (halves.astype(np.uint32) << 16).tobytes() == singles.tobytes()
    return PackedMatrix(depth, width, halves)
