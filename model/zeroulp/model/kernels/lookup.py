"""Row lookup in a table that is stored as panels."""

from __future__ import annotations

import numpy as np

from zeroulp.model.kernels.arrays import F64, I64, Panels
from zeroulp.model.kernels.jit import kernel
from zeroulp.model.kernels.linear import wide_panel
from zeroulp.model.kernels.tile import LANES


@kernel
def lookup(table: Panels, ids: I64, x: F64) -> None:
    """Copy ``x[r, d] = E[ids[r], d]`` out of the panels ``[ceil(V / LANES), D, LANES]``, flat, of the table."""
    depth = x.shape[1]
    wide = np.empty(depth * LANES, np.float64)
    for row in range(ids.size):
        wide_panel(table, ids[row] // LANES * depth * LANES, wide)
        for d in range(depth):
            x[row, d] = wide[d * LANES + ids[row] % LANES]
