"""Matrix products: ``y[r, n] = sum_k x[r, k] * w[k, n]``, k ascending, starting at +0.0."""

from __future__ import annotations

import numpy as np

from zeroulp.model.kernels.arrays import F64, Panels
from zeroulp.model.kernels.jit import kernel
from zeroulp.model.kernels.tile import LANES, tile

FEW_ROWS = 8
"""Up to here weights are widened as they stream by; above, each panel is widened once for a block of rows."""

BLOCK_VALUES = 24 * 1024
"""Inputs (rows x depth) that stay in a core's second-level cache beside a widened panel."""


@kernel
def _panel_tiles(x: F64, first: int, last: int, w: Panels, w_at: int, depth: int, y: F64, y_at: int, width: int) -> None:
    """Multiply rows ``first..last`` of x with one panel, in the largest tiles that fit."""
    row = first
    while row + 6 <= last:
        tile(6, 1, 0, x, row * depth, depth, w, w_at, LANES, 0, depth, y, y_at + row * width, width)
        row += 6
    while row + 4 <= last:
        tile(4, 1, 0, x, row * depth, depth, w, w_at, LANES, 0, depth, y, y_at + row * width, width)
        row += 4
    while row + 2 <= last:
        tile(2, 1, 0, x, row * depth, depth, w, w_at, LANES, 0, depth, y, y_at + row * width, width)
        row += 2
    if row < last:
        tile(1, 1, 0, x, row * depth, depth, w, w_at, LANES, 0, depth, y, y_at + row * width, width)


@kernel
def _few_rows(x: F64, rows: int, depth: int, w: Panels, y: F64, width: int, first: int, last: int) -> None:
    """Multiply up to FEW_ROWS rows with whole panels ``first..last``: bound by the stream of weights."""
    step = depth * LANES
    panel = first
    if rows == 1:
        # Four streams at once hide the latency of the ascending sums.
        while panel + 4 <= last:
            tile(1, 4, 0, x, 0, depth, w, panel * step, LANES, step, depth, y, panel * LANES, width)
            panel += 4
    elif rows == 2:
        while panel + 2 <= last:
            tile(2, 2, 0, x, 0, depth, w, panel * step, LANES, step, depth, y, panel * LANES, width)
            panel += 2
    while panel < last:
        _panel_tiles(x, 0, rows, w, panel * step, depth, y, panel * LANES, width)
        panel += 1


@kernel
def _many_rows(x: F64, rows: int, depth: int, w: Panels, y: F64, width: int, first: int, last: int) -> None:
    """Multiply many rows with whole panels ``first..last``: bound by the products."""
    step = depth * LANES
    block = max(24, BLOCK_VALUES // depth // 6 * 6)
    wide = np.empty(step, np.float64)
    for start in range(0, rows, block):
        stop = min(rows, start + block)
        for panel in range(first, last):
            wide_panel(w, panel * step, wide)
            _panel_tiles(x, start, stop, wide, 0, depth, y, panel * LANES, width)


@kernel
def wide_panel(w: Panels, at: int, wide: F64) -> None:
    """Widen one stored panel, exactly, into ``wide``: multiplying by 1.0 and adding to +0.0 keeps each value."""
    one = np.ones(1)
    for k in range(0, wide.size, LANES):
        tile(1, 1, 0, one, 0, 0, w, at + k, 0, 0, 1, wide, k, 0)


@kernel
def _last_panel(x: F64, rows: int, depth: int, w: Panels, y: F64, width: int, panel: int) -> None:
    """Multiply with the last, partly filled panel, beside the result, and copy the outputs that exist."""
    beside = np.empty(rows * LANES, np.float64)
    _panel_tiles(x, 0, rows, w, panel * depth * LANES, depth, beside, 0, LANES)
    for row in range(rows):
        for lane in range(width - panel * LANES):
            y[row * width + panel * LANES + lane] = beside[row * LANES + lane]


@kernel
def linear_part(x: F64, rows: int, depth: int, w: Panels, y: F64, width: int, part: int, parts: int) -> None:
    """Compute one part's share of the panels of ``y[r, n] = sum_k x[r, k] * w[k, n]``, k ascending.

    ``x`` is ``[rows, depth]`` and ``y`` ``[rows, width]``, flat and row-major; ``w`` is flat panels
    ``[ceil(width / LANES), depth, LANES]`` of f64, f32 or bfloat16 (as uint16).
    """
    whole = width // LANES
    first, last = whole * part // parts, whole * (part + 1) // parts
    if rows <= FEW_ROWS:
        _few_rows(x, rows, depth, w, y, width, first, last)
    else:
        _many_rows(x, rows, depth, w, y, width, first, last)
    if part == parts - 1 and whole * LANES < width:
        _last_panel(x, rows, depth, w, y, width, whole)
