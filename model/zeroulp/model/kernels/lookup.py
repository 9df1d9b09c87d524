"""Row lookup in a table that is stored as panels."""

from __future__ import annotations

import numpy as np

from zeroulp.model.kernels.arrays import F64, I64, Panels
from zeroulp.model.kernels.jit import kernel
from zeroulp.model.kernels.stored import stored_size, widen
from zeroulp.model.kernels.vectors import LANES


@kernel
def first_outside(ids: I64, rows: int) -> int:
    """Return the index of the first id that names none of a table's rows, the number of ids if all do."""
    for index in range(ids.size):
        if not 0 <= ids[index] < rows:
            return index
    return ids.size


@kernel
def lookup(table: Panels, ids: I64, x: F64) -> None:
    """Copy ``x[r, d] = E[ids[r], d]`` from the table's panels ``[ceil(V / LANES), D, LANES]``, flat."""
    depth = x.shape[1]
    wide = np.empty(depth * LANES, np.float64)
    for row in range(ids.size):
        widen(table, ids[row] // LANES * stored_size(table, depth), depth, wide)
        for d in range(depth):
            x[row, d] = wide[d * LANES + ids[row] % LANES]


@kernel
def widen_panels(panels: Panels, depth: int, wide: F64) -> None:
    """Widen all panels, flat, into ``wide [panels, depth, LANES]``, flat."""
    size = depth * LANES
    for panel in range(wide.size // size):
        at = panel * stored_size(panels, depth)
        widen(panels, at, depth, wide[panel * size : (panel + 1) * size])
