"""Matrices packed once in panels, in the narrowest storage that is exact."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from zeroulp.model.kernels.arrays import F64, Panels
from zeroulp.model.kernels.lookup import widen_panels
from zeroulp.model.kernels.vectors import CACHE_LINE, LANES

# Values widened at a time where only a question about them is asked: a few megabytes.
_SLAB_VALUES = 2**18

_NAMES = {"float64": "f64", "float32": "f32", "uint16": "bf16", "uint32": "q4_1", "int32": "q8_0"}


@dataclass(frozen=True, slots=True)
class PackedMatrix:
    """Weights ``[depth, width]`` as panels ``[ceil(width / LANES), depth, LANES]``, flat.

    The padding is zero. The dtype is the storage: float64, float32, or uint16 for bfloat16. Widening gives
    the same values back.
    """

    depth: int
    width: int
    panels: Panels

    @property
    def nbytes(self) -> int:
        """Bytes of storage."""
        return self.panels.nbytes

    @property
    def storage(self) -> str:
        """The storage format's name."""
        return _NAMES[self.panels.dtype.name]

    @property
    def _count(self) -> int:
        return -(-self.width // LANES)

    def is_finite(self) -> bool:
        """Tell whether no value is a NaN or an infinity; takes a few megabytes at a time."""
        panels = self.panels.reshape(self._count, -1)
        slab = max(1, _SLAB_VALUES // (self.depth * LANES))
        for start in range(0, self._count, slab):
            stored = panels[start : start + slab]
            wide = np.empty(len(stored) * self.depth * LANES)
            widen_panels(stored.reshape(-1), self.depth, wide)
            if not np.isfinite(wide).all():
                return False
        return True

    def unpack(self) -> F64:
        """Return the values ``[depth, width]``."""
        count = self._count
        wide = np.empty((count, self.depth, LANES))  # [panels, depth, LANES]
        widen_panels(self.panels, self.depth, wide.reshape(-1))
        rows = wide.transpose(1, 0, 2).reshape(self.depth, -1)  # [depth, padded width]
        return np.ascontiguousarray(rows[:, : self.width])


def pack(values: NDArray[Any]) -> PackedMatrix:
    """Pack ``values [depth, width]`` of float32 or float64; no value changes."""
    depth, width = values.shape
    narrow = narrowest(values)
    count = -(-width // LANES)
    panels = aligned_zeros(count * depth * LANES, narrow.dtype)
    target = panels.reshape(count, depth, LANES)
    whole = width // LANES
    target[:whole] = narrow[:, : whole * LANES].reshape(depth, whole, LANES).transpose(1, 0, 2)
    if whole < count:
        target[whole, :, : width - whole * LANES] = narrow[:, whole * LANES :]
    return PackedMatrix(depth, width, panels)


def narrowest(values: NDArray[Any]) -> Panels:
    """Return the values as bfloat16 (uint16), float32 or float64: the first that holds each bit of them."""
    values = single_if_exact(values)
    if values.dtype != np.float32:
        return values
    bits = values.view(np.uint32)
    if not np.any(bits & 0xFFFF):
        return (bits >> 16).astype(np.uint16)
    return values


def single_if_exact(values: NDArray[Any]) -> NDArray[Any]:
    """Return the values as float32 where that holds each bit of them, and as float64 otherwise."""
    if values.dtype == np.float32:
        return values
    values = values.astype(np.float64, copy=False)
    with np.errstate(over="ignore", invalid="ignore"):
        single = values.astype(np.float32)
        exact = np.array_equal(single.astype(np.float64).view(np.int64), values.view(np.int64))
    return single if exact else values


def aligned_zeros(size: int, dtype: DTypeLike) -> NDArray[Any]:
    """Return a zeroed flat array that starts on a cache line, so that no panel row straddles two."""
    itemsize = np.dtype(dtype).itemsize
    raw = np.zeros(size * itemsize + CACHE_LINE, np.uint8)
    skip = -raw.ctypes.data % CACHE_LINE
    return raw[skip : skip + size * itemsize].view(dtype)
