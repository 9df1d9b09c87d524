"""Matrix products: ``y[r, n] = sum_k x[r, k] * w[k, n]``, k ascending, starting at +0.0."""

from __future__ import annotations

import numpy as np

from zeroulp.model.kernels.arrays import F64, Panels
from zeroulp.model.kernels.jit import kernel
from zeroulp.model.kernels.stored import BLOCK_TERMS, is_quantised, stored_size, widen
from zeroulp.model.kernels.tile import tile
from zeroulp.model.kernels.vectors import LANES

FEW_ROWS = 8
"""Up to here weights are widened as they stream by; above, each panel is widened once for all rows."""

TILE_ROWS = 6
"""Rows of a packed tile: with two AVX2 registers of a panel, twelve sums that hide each other's latency."""

CHUNK = 576
"""Terms of a panel that are widened at a time: a tile's rows of them, 27 KB, fit the first-level cache."""

ABREAST = 4
"""Panels that are widened at a time, 144 KB in the second-level cache: the rows, which may be megabytes, are
read once for all of them."""


@kernel
def pack_rows_part(x: F64, rows: int, depth: int, packed: F64, part: int, parts: int) -> None:
    """Interleave one part of x's whole row tiles: ``packed[tile, k, r] = x[tile * TILE_ROWS + r, k]``.

    A tile then reads one stream instead of rows that lie pages apart.
    """
    tiles = rows // TILE_ROWS
    for index in range(tiles * part // parts, tiles * (part + 1) // parts):
        first = index * TILE_ROWS * depth
        a, b = x[first : first + depth], x[first + depth : first + 2 * depth]
        c, d = x[first + 2 * depth : first + 3 * depth], x[first + 3 * depth : first + 4 * depth]
        e, f = x[first + 4 * depth : first + 5 * depth], x[first + 5 * depth : first + 6 * depth]
        out = packed[first : first + TILE_ROWS * depth]
        for k in range(depth):
            at = TILE_ROWS * k
            out[at], out[at + 1], out[at + 2], out[at + 3] = a[k], b[k], c[k], d[k]
            out[at + 4], out[at + 5] = e[k], f[k]


@kernel
def _few_rows_panel(
    x: F64, rows: int, depth: int, w: Panels, w_at: int, y: F64, y_at: int, width: int
) -> None:
    row = 0
    while row + 4 <= rows:
        tile(4, 1, 0, x, row * depth, depth, 1, w, w_at, LANES, 0, depth, y, y_at + row * width, width)
        row += 4
    if row + 2 <= rows:
        tile(2, 1, 0, x, row * depth, depth, 1, w, w_at, LANES, 0, depth, y, y_at + row * width, width)
        row += 2
    if row < rows:
        tile(1, 1, 0, x, row * depth, depth, 1, w, w_at, LANES, 0, depth, y, y_at + row * width, width)


@kernel
def _few_rows(
    x: F64, rows: int, depth: int, w: Panels, y: F64, y_at: int, width: int, first: int, last: int
) -> None:
    """Multiply up to FEW_ROWS rows with panels ``first..last``, whose outputs start at ``y[y_at]``.

    Bound by the stream of weights.
    """
    step = stored_size(w, depth)
    panel = first
    # Several panels at once hide the latency of the ascending sums. Quantised ones are bound by their
    # widening, and two of them fill the sixteen registers of AVX2 with sums, scales and minima.
    if rows == 1 and is_quantised(w):
        while panel + 2 <= last:
            at = y_at + (panel - first) * LANES
            tile(1, 2, 0, x, 0, depth, 1, w, panel * step, LANES, step, depth, y, at, width)
            panel += 2
    elif rows == 1:
        while panel + 4 <= last:
            at = y_at + (panel - first) * LANES
            tile(1, 4, 0, x, 0, depth, 1, w, panel * step, LANES, step, depth, y, at, width)
            panel += 4
    elif rows == 2 and not is_quantised(w):
        while panel + 2 <= last:
            at = y_at + (panel - first) * LANES
            tile(2, 2, 0, x, 0, depth, 1, w, panel * step, LANES, step, depth, y, at, width)
            panel += 2
    while panel < last:
        at = y_at + (panel - first) * LANES
        _few_rows_panel(x, rows, depth, w, panel * step, y, at, width)
        panel += 1


@kernel
def _many_rows_panels(
    x: F64,
    packed: F64,
    rows: int,
    depth: int,
    wide: F64,
    panels: int,
    start: int,
    count: int,
    y: F64,
    y_at: int,
    width: int,
) -> None:
    """Take the terms ``start .. start + count`` of some panels, widened, into the sums of all rows.

    A tile's rows stay in the first-level cache while they meet one panel after the other.
    """
    for index in range(rows // TILE_ROWS):
        at = (index * depth + start) * TILE_ROWS
        for p in range(panels):
            w_at, out_at = p * count * LANES, y_at + index * TILE_ROWS * width + p * LANES
            if start == 0:
                tile(6, 1, 0, packed, at, 1, TILE_ROWS, wide, w_at, LANES, 0, count, y, out_at, width)
            else:
                tile(6, 1, 1, packed, at, 1, TILE_ROWS, wide, w_at, LANES, 0, count, y, out_at, width)
    for row in range(rows // TILE_ROWS * TILE_ROWS, rows):
        for p in range(panels):
            at, w_at, out_at = row * depth + start, p * count * LANES, y_at + row * width + p * LANES
            if start == 0:
                tile(1, 1, 0, x, at, 0, 1, wide, w_at, LANES, 0, count, y, out_at, 0)
            else:
                tile(1, 1, 1, x, at, 0, 1, wide, w_at, LANES, 0, count, y, out_at, 0)


@kernel
def _many_rows(
    x: F64,
    packed: F64,
    rows: int,
    depth: int,
    w: Panels,
    y: F64,
    y_at: int,
    width: int,
    first: int,
    last: int,
) -> None:
    """Multiply many rows with panels ``first..last``, whose outputs start at ``y[y_at]``.

    Bound by the products.
    """
    chunks = (depth + CHUNK - 1) // CHUNK
    scratch = np.empty(ABREAST * (min(depth, CHUNK) + BLOCK_TERMS) * LANES + LANES)
    skip = -scratch.ctypes.data % (8 * LANES) // 8  # a panel row should not straddle two cache lines
    for chunk in range(chunks):
        # whole blocks of a quantised format, so that a chunk starts where a block does
        start = depth * chunk // chunks // BLOCK_TERMS * BLOCK_TERMS
        stop = depth * (chunk + 1) // chunks // BLOCK_TERMS * BLOCK_TERMS if chunk + 1 < chunks else depth
        count = stop - start
        for panel in range(first, last, ABREAST):
            panels = min(ABREAST, last - panel)
            for p in range(panels):
                wide = scratch[skip + p * count * LANES : skip + (p + 1) * count * LANES]
                widen(w, (panel + p) * stored_size(w, depth) + stored_size(w, start), count, wide)
            wide = scratch[skip : skip + panels * count * LANES]
            out_at = y_at + (panel - first) * LANES
            _many_rows_panels(x, packed, rows, depth, wide, panels, start, count, y, out_at, width)


@kernel
def linear_part(
    x: F64, packed: F64, rows: int, depth: int, w: Panels, y: F64, width: int, part: int, parts: int
) -> None:
    """Compute one part's share of the panels of ``y[r, n] = sum_k x[r, k] * w[k, n]``, k ascending.

    ``x`` is ``[rows, depth]`` and ``y`` ``[rows, width]``, flat and row-major, ``packed`` the row tiles of x
    when there are more than FEW_ROWS; ``w`` is flat panels ``[ceil(width / LANES), depth, LANES]`` of f64,
    f32 or bfloat16 (as uint16).
    """
    whole = width // LANES
    first, last = whole * part // parts, whole * (part + 1) // parts
    # The last panel may be partly filled: it is computed beside the result, and what exists is copied.
    beside = np.empty(rows * LANES if part == parts - 1 and whole * LANES < width else 0)
    # one call for both, since the compiler copies all tiles into each
    for out, at, step, begin, end in (
        (y, first * LANES, width, first, last),
        (beside, 0, LANES, whole, whole + 1),
    ):
        if out.size == 0:
            continue
        if rows <= FEW_ROWS:
            _few_rows(x, rows, depth, w, out, at, step, begin, end)
        else:
            _many_rows(x, packed, rows, depth, w, out, at, step, begin, end)
    if beside.size:
        for row in range(rows):
            for lane in range(width - whole * LANES):
                y[row * width + whole * LANES + lane] = beside[row * LANES + lane]
