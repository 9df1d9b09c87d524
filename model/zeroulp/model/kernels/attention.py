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
from zeroulp.model.kernels.lanes import scale_and_maximum
from zeroulp.model.kernels.softmax import exponentials_below
from zeroulp.model.kernels.tile import tile
from zeroulp.model.kernels.vectors import LANES

TILE_ROWS = 4
"""Query rows that share one pass over the keys."""


@kernel
def _rows_by_panel(
    rows: int,
    x: F64,
    x_at: int,
    x_step: int,
    x_k: int,
    w: F64,
    w_at: int,
    w_step: int,
    depth: int,
    out: F64,
    out_at: int,
    out_step: int,
) -> None:
    """Continue the sums of one panel for one to TILE_ROWS rows."""
    if rows == 4:
        tile(4, 1, 1, x, x_at, x_step, x_k, w, w_at, w_step, 0, depth, out, out_at, out_step)
    elif rows == 3:
        tile(3, 1, 1, x, x_at, x_step, x_k, w, w_at, w_step, 0, depth, out, out_at, out_step)
    elif rows == 2:
        tile(2, 1, 1, x, x_at, x_step, x_k, w, w_at, w_step, 0, depth, out, out_at, out_step)
    else:
        tile(1, 1, 1, x, x_at, x_step, x_k, w, w_at, w_step, 0, depth, out, out_at, out_step)


@kernel
def _scores(
    q: F64, rows: int, table: I64, head: int, keys: F64, start: int, stop: int, s: F64, span: int
) -> None:
    """Fill raw scores of blocks ``start..stop`` for ``rows`` gathered query rows ``q [features, rows]``."""
    heads, width = keys.shape[1], keys.shape[3]
    flat = keys.reshape(-1)
    s[: rows * span] = 0.0
    for block in range(start, stop):
        at = (table[block] * heads + head) * BLOCK * width
        for panel in range(BLOCK // LANES):
            column = (block - start) * BLOCK + panel * LANES
            _rows_by_panel(
                rows, q, 0, 1, rows, flat, at + panel * LANES * width, LANES, width, s, column, span
            )


@kernel
def _scaled_maximum(line: F64, first: int, last: int, scale: float) -> float:
    """Scale ``line[first..last]`` in place and return the largest value, NaN if one is not finite."""
    groups = (last - first) // LANES
    largest = scale_and_maximum(line, first, groups, scale) if groups else -np.inf
    for j in range(first + groups * LANES, last):
        line[j] *= scale
        if line[j] - line[j] != 0.0:
            return np.nan
        if line[j] > largest:
            largest = line[j]
    return largest


@kernel
def _softmax(s: F64, row: int, span: int, first: int, last: int, scale: float) -> bool:
    """Turn one row's raw scores ``first..last`` into probabilities in place; tell whether all were finite."""
    line = s[row * span : (row + 1) * span]
    largest = _scaled_maximum(line, first, last, scale)
    if largest != largest:
        return False
    total = exponentials_below(line, first, last, largest, line)
    for j in range(first, last):
        line[j] = line[j] / total
    return True


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
    """Continue ``o[row ..] += p[j] * v[j]`` for j in ``first..last``, ascending, ``rows`` rows at once."""
    heads, padded = values.shape[1], values.shape[3]
    flat = values.reshape(-1)
    position = first
    while position < last:
        stop = min(last, (position // BLOCK + 1) * BLOCK)
        at = ((table[position // BLOCK] * heads + head) * BLOCK + position % BLOCK) * padded
        p_at = row * span + position - origin
        for f in range(0, padded, LANES):
            _rows_by_panel(
                rows, p, p_at, span, 1, flat, at + f, padded, stop - position, o, row * padded + f, padded
            )
        position = stop


@kernel
def _attend_rows(
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
    times = np.empty(rows, np.int64)
    gathered = np.empty(rows * width)
    for r in range(rows):
        times[r] = (row + r) // group
        column = (head * group + (row + r) % group) * width
        for f in range(width):
            gathered[f * rows + r] = q[times[r], column + f]
    # both bounds only grow with the position
    start, stop = first[times[0]] // BLOCK, (last[times[rows - 1]] + BLOCK - 1) // BLOCK
    origin, span = start * BLOCK, (stop - start) * BLOCK
    s = np.empty(rows * span)
    _scores(gathered, rows, table, head, keys, start, stop, s, span)
    finite = True
    for r in range(rows):
        finite &= _softmax(s, r, span, first[times[r]] - origin, last[times[r]] - origin, scale)

    o = np.zeros(rows * padded)
    shared_first, shared_last = first[times[rows - 1]], last[times[0]]
    shared_last = max(shared_first, shared_last)
    for r in range(rows):
        _mix(
            s, r, 1, span, origin, first[times[r]], min(shared_first, last[times[r]]), table, head, values, o
        )
    _mix(s, 0, rows, span, origin, shared_first, shared_last, table, head, values, o)
    for r in range(rows):
        _mix(s, r, 1, span, origin, max(shared_last, first[times[r]]), last[times[r]], table, head, values, o)
    for r in range(rows):
        column = (head * group + (row + r) % group) * width
        for f in range(width):
            y[times[r], column + f] = o[r * padded + f]
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
    tiles = (grouped + TILE_ROWS - 1) // TILE_ROWS
    # later rows see more keys: interleaving the tiles gives every part the same share
    for item in range(part, heads * tiles, parts):
        row = item // heads * TILE_ROWS
        if not _attend_rows(
            q, row, min(TILE_ROWS, grouped - row), item % heads, first, last, table, keys, values, scale, y
        ):
            finite[part] = 0
