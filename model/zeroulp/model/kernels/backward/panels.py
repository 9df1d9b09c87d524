"""Laying out the operands of a backward product for the product kernel. Nothing here rounds."""

from __future__ import annotations

import numpy as np

from zeroulp.model.kernels.arrays import F64, Panels
from zeroulp.model.kernels.jit import kernel
from zeroulp.model.kernels.stored import stored_size, widen
from zeroulp.model.kernels.vectors import LANES


@kernel
def transpose_part(x: F64, rows: int, width: int, y: F64, part: int, parts: int) -> None:
    """Copy one part's columns of flat ``x [rows, width]`` into ``y [width, rows]``."""
    last = width * (part + 1) // parts
    for start in range(width * part // parts, last, LANES):
        columns = range(start, min(start + LANES, last))
        for row in range(rows):
            for column in columns:
                y[column * rows + row] = x[row * width + column]


@kernel
def pack_part(x: F64, rows: int, width: int, panels: F64, part: int, parts: int) -> None:
    """Copy one part's columns of flat ``x [rows, width]`` into ``panels [ceil(width / LANES), rows, LANES]``.

    The panels' padding is left alone.
    """
    count = (width + LANES - 1) // LANES
    for panel in range(count * part // parts, count * (part + 1) // parts):
        lanes = min(LANES, width - panel * LANES)
        for row in range(rows):
            for lane in range(lanes):
                panels[(panel * rows + row) * LANES + lane] = x[row * width + panel * LANES + lane]


@kernel
def transpose_panels_part(w: Panels, depth: int, width: int, turned: F64, part: int, parts: int) -> None:
    """Widen one part's panels of w ``[depth, width]`` into the panels of its transpose.

    From ``[ceil(width / LANES), depth, LANES]`` to ``[ceil(depth / LANES), width, LANES]``, whose padding
    is left alone.
    """
    count = (width + LANES - 1) // LANES
    wide = np.empty(depth * LANES)
    for panel in range(count * part // parts, count * (part + 1) // parts):
        widen(w, panel * stored_size(w, depth), depth, wide)
        lanes = min(LANES, width - panel * LANES)
        for start in range(0, depth, LANES):
            target = start * width + panel * LANES * LANES
            for lane in range(lanes):
                for k in range(min(LANES, depth - start)):
                    turned[target + lane * LANES + k] = wide[(start + k) * LANES + lane]
