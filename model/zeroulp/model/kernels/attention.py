"""Grouped-query attention of new rows over a sequence's cache blocks.

For query row t of head i, over visible keys j ascending:
    s[j] = (sum_f q[f] * k[j, f]) * scale;  p = softmax(s);  o[f] = sum_j p[j] * v[j, f]
Keys outside ``first[t] .. last[t]`` are left out of every sum.
"""

from __future__ import annotations

import numpy as np

from zeroulp.model.kernels.arrays import F64, I64
from zeroulp.model.kernels.cache_rows import BLOCK
from zeroulp.model.kernels.jit import kernel
from zeroulp.model.kernels.softmax import softmax_row
from zeroulp.model.kernels.tile import tile
from zeroulp.model.kernels.vectors import LANES

TILE_ROWS = 4
"""Query rows whose sums are in registers at a time."""

STRIP_ROWS = 16
"""Query rows that go over a block of keys or values while it is in the first-level cache."""


@kernel
def rows_by_panels(
    rows: int,
    panels: int,
    x: F64,
    x_at: int,
    x_step: int,
    x_k: int,
    w: F64,
    w_at: int,
    w_step: int,
    w_panel: int,
    depth: int,
    y: F64,
    y_at: int,
    y_step: int,
) -> None:
    """Continue the sums of some panels for one to TILE_ROWS rows; a call is worth several panels."""
    if rows == 4:
        for p in range(panels):
            tile(
                4,
                1,
                1,
                x,
                x_at,
                x_step,
                x_k,
                w,
                w_at + p * w_panel,
                w_step,
                0,
                depth,
                y,
                y_at + p * LANES,
                y_step,
            )
    elif rows == 3:
        for p in range(panels):
            tile(
                3,
                1,
                1,
                x,
                x_at,
                x_step,
                x_k,
                w,
                w_at + p * w_panel,
                w_step,
                0,
                depth,
                y,
                y_at + p * LANES,
                y_step,
            )
    elif rows == 2:
        for p in range(panels):
            tile(
                2,
                1,
                1,
                x,
                x_at,
                x_step,
                x_k,
                w,
                w_at + p * w_panel,
                w_step,
                0,
                depth,
                y,
                y_at + p * LANES,
                y_step,
            )
    else:
        for p in range(panels):
            tile(
                1,
                1,
                1,
                x,
                x_at,
                x_step,
                x_k,
                w,
                w_at + p * w_panel,
                w_step,
                0,
                depth,
                y,
                y_at + p * LANES,
                y_step,
            )


@kernel
def scores(
    q: F64,
    rows: int,
    firsts: I64,
    lasts: I64,
    table: I64,
    head: int,
    keys: F64,
    start: int,
    stop: int,
    s: F64,
    span: int,
) -> None:
    """Fill raw scores of the blocks ``start..stop`` that a tile's rows can see.

    ``q`` holds the gathered rows, each tile as ``[features, tile rows]``.
    """
    heads, width = keys.shape[1], keys.shape[3]
    flat = keys.reshape(-1)
    s[: rows * span] = 0.0
    for block in range(start, stop):
        at = (table[block] * heads + head) * BLOCK * width
        for row in range(0, rows, TILE_ROWS):
            count = min(TILE_ROWS, rows - row)
            if block * BLOCK >= lasts[row + count - 1] or (block + 1) * BLOCK <= firsts[row]:
                continue
            s_at = row * span + (block - start) * BLOCK
            rows_by_panels(
                count,
                BLOCK // LANES,
                q,
                row * width,
                1,
                count,
                flat,
                at,
                LANES,
                LANES * width,
                width,
                s,
                s_at,
                span,
            )


@kernel
def _mix(
    p: F64,
    row: int,
    rows: int,
    span: int,
    origin: int,
    first: int,
    last: int,
    table: I64,
    head: int,
    values: F64,
    o: F64,
) -> None:
    """Continue ``o[row ..] += p[j] * v[j]`` for j in ``first..last``, ascending, inside one block."""
    heads, padded = values.shape[1], values.shape[3]
    at = ((table[first // BLOCK] * heads + head) * BLOCK + first % BLOCK) * padded
    p_at = row * span + first - origin
    rows_by_panels(
        rows,
        padded // LANES,
        p,
        p_at,
        span,
        1,
        values.reshape(-1),
        at,
        padded,
        LANES,
        last - first,
        o,
        row * padded,
        padded,
    )


@kernel
def mix_tile_in_block(
    p: F64,
    row: int,
    rows: int,
    span: int,
    origin: int,
    firsts: I64,
    lasts: I64,
    block: int,
    table: I64,
    head: int,
    values: F64,
    o: F64,
) -> None:
    """Continue the mixes of one tile with what its rows see of a block.

    Keys that all rows see go through the tile; before and after them each row takes its own.
    """
    start, stop = block * BLOCK, (block + 1) * BLOCK
    shared_first = min(max(firsts[row + rows - 1], start), stop)
    shared_last = max(min(lasts[row], stop), shared_first)
    for r in range(row, row + rows):
        first, last = max(firsts[r], start), min(lasts[r], shared_first)
        if first < last:
            _mix(p, r, 1, span, origin, first, last, table, head, values, o)
    if shared_first < shared_last:
        _mix(p, row, rows, span, origin, shared_first, shared_last, table, head, values, o)
    for r in range(row, row + rows):
        first, last = max(firsts[r], shared_last), min(lasts[r], stop)
        if first < last:
            _mix(p, r, 1, span, origin, first, last, table, head, values, o)


@kernel
def _attend_strip(
    q: F64,
    row: int,
    rows: int,
    head: int,
    first: I64,
    last: I64,
    table: I64,
    keys: F64,
    values: F64,
    scale: float,
    y: F64,
) -> bool:
    """Attend with grouped rows ``row .. row + rows`` (position-major) of one key/value head."""
    heads, width, padded = keys.shape[1], keys.shape[3], values.shape[3]
    group = y.shape[1] // width // heads
    firsts, lasts = np.empty(rows, np.int64), np.empty(rows, np.int64)
    gathered = np.empty(rows * width)
    for r in range(rows):
        time, column = (row + r) // group, (head * group + (row + r) % group) * width
        firsts[r], lasts[r] = first[time], last[time]
        tile_row = r // TILE_ROWS * TILE_ROWS
        count = min(TILE_ROWS, rows - tile_row)
        for f in range(width):
            gathered[tile_row * width + f * count + r - tile_row] = q[time, column + f]
    # both bounds only grow with the position
    start, stop = firsts[0] // BLOCK, (lasts[rows - 1] + BLOCK - 1) // BLOCK
    origin, span = start * BLOCK, (stop - start) * BLOCK
    s = np.empty(rows * span)
    scores(gathered, rows, firsts, lasts, table, head, keys, start, stop, s, span)
    finite = True
    for r in range(rows):
        finite &= softmax_row(s, r, span, firsts[r] - origin, lasts[r] - origin, scale)
    o = np.zeros(rows * padded)
    for block in range(start, stop):
        for r in range(0, rows, TILE_ROWS):
            count = min(TILE_ROWS, rows - r)
            mix_tile_in_block(s, r, count, span, origin, firsts, lasts, block, table, head, values, o)
    for r in range(rows):
        time, column = (row + r) // group, (head * group + (row + r) % group) * width
        for f in range(width):
            y[time, column + f] = o[r * padded + f]
    return finite


@kernel
def attention_part(
    q: F64,
    first: I64,
    last: I64,
    table: I64,
    keys: F64,
    values: F64,
    scale: float,
    y: F64,
    finite: I64,
    part: int,
    parts: int,
) -> None:
    """Attend with one part's share of the new rows q ``[T, heads * head_width]`` into y, of q's shape.

    Row t sees the cache positions ``first[t] .. last[t]`` (last excluded), both non-decreasing in t.
    Clears ``finite[part]`` if a visible score was not finite.
    """
    heads, width = keys.shape[1], keys.shape[3]
    grouped = q.shape[0] * (q.shape[1] // width // heads)
    strips = (grouped + STRIP_ROWS - 1) // STRIP_ROWS
    # later rows see more keys: interleaving the strips gives every part the same share
    for item in range(part, heads * strips, parts):
        row = item // heads * STRIP_ROWS
        rows = min(STRIP_ROWS, grouped - row)
        if not _attend_strip(q, row, rows, item % heads, first, last, table, keys, values, scale, y):
            finite[part] = 0
