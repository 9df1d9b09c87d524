"""Gradients of grouped-query attention, a band of positions at a time.

A band's probabilities p and score gradients ds are kept, and no more: memory grows with the number of
keys, not with its square. For row r of a key/value head (position by position, and the heads of its group
within a position) with ``do`` the gradient of its mixed row, j over its visible keys:
    dp[j] = sum_f do[f] * v[j, f];  t = sum_j p[j] * dp[j];  ds[j] = p[j] * (dp[j] - t)
    dq[f] = (sum_j ds[j] * k[j, f]) * scale
    dk[j, f] = (sum_r ds[r, j] * q[r, f]) * scale;  dv[j, f] = sum_r p[r, j] * do[r, f]
All sums ascend, and r only runs over rows that see key j. The multiplications by the scale that stand
outside the sums are the caller's. Rows are ``[kv_heads, rows, padded_width]`` here, features as lanes.
"""

from __future__ import annotations

import numpy as np

from zeroulp.model.kernels.arrays import F64, I64
from zeroulp.model.kernels.attention import (
    STRIP_ROWS,
    TILE_ROWS,
    mix_tile_in_block,
    rows_by_panels,
    scores,
)
from zeroulp.model.kernels.backward.softmax import softmax_gradient_row
from zeroulp.model.kernels.cache_rows import BLOCK
from zeroulp.model.kernels.jit import kernel
from zeroulp.model.kernels.softmax import softmax_row
from zeroulp.model.kernels.vectors import LANES


@kernel
def _gather(x: F64, rows: int, padded: int, width: int, gathered: F64) -> None:
    """Lay out flat ``x [rows, padded]`` as ``scores`` wants its rows: each tile as [features, tile rows]."""
    for r in range(rows):
        tile_row = r // TILE_ROWS * TILE_ROWS
        count = min(TILE_ROWS, rows - tile_row)
        for f in range(width):
            gathered[tile_row * width + f * count + r - tile_row] = x[r * padded + f]


@kernel
def _differentiate_strip(
    q: F64,
    do: F64,
    rows: int,
    firsts: I64,
    lasts: I64,
    table: I64,
    head: int,
    keys: F64,
    values: F64,
    key_rows: F64,
    start: int,
    stop: int,
    scale: float,
    p: F64,
    ds: F64,
    dq: F64,
) -> None:
    """Fill a strip's p and ds ``[rows, span]`` over the blocks ``start..stop``, and its unscaled dq."""
    width, padded = keys.shape[3], key_rows.shape[3]
    origin, span = start * BLOCK, (stop - start) * BLOCK
    gathered = np.empty(rows * width)
    _gather(q, rows, padded, width, gathered)
    scores(gathered, rows, firsts, lasts, table, head, keys, start, stop, p, span)
    _gather(do, rows, padded, width, gathered)
    scores(gathered, rows, firsts, lasts, table, head, values, start, stop, ds, span)
    for r in range(rows):
        first, last = firsts[r] - origin, lasts[r] - origin
        if not softmax_row(p, r, span, first, last, scale):
            p[r * span + first : r * span + last] = np.nan  # as the forward marks such a row
        softmax_gradient_row(p, ds, r * span + first, r * span + last, ds)
    dq[: rows * padded] = 0.0
    for block in range(firsts[0] // BLOCK, (lasts[rows - 1] + BLOCK - 1) // BLOCK):
        for r in range(0, rows, TILE_ROWS):
            count = min(TILE_ROWS, rows - r)
            mix_tile_in_block(ds, r, count, span, origin, firsts, lasts, block, table, head, key_rows, dq)


@kernel
def query_gradient_part(
    q: F64,
    do: F64,
    begin: int,
    end: int,
    first: I64,
    last: I64,
    table: I64,
    keys: F64,
    values: F64,
    key_rows: F64,
    scale: float,
    p: F64,
    ds: F64,
    dq: F64,
    part: int,
    parts: int,
) -> None:
    """Fill one part's strips of the band ``begin..end``: p, ds ``[kv_heads, band rows, span]`` and dq.

    ``keys`` and ``values`` are both laid out as a cache's keys, ``key_rows`` as its values. The span covers
    the blocks from ``first[begin]`` to ``last[end - 1]``.
    """
    heads, total, padded = q.shape
    group = total // first.size
    start, stop = first[begin] // BLOCK, (last[end - 1] + BLOCK - 1) // BLOCK
    band, span = (end - begin) * group, (stop - start) * BLOCK
    strips = (band + STRIP_ROWS - 1) // STRIP_ROWS
    for item in range(part, heads * strips, parts):
        head, row = item % heads, item // heads * STRIP_ROWS
        rows, at = min(STRIP_ROWS, band - row), begin * group + row
        firsts, lasts = np.empty(rows, np.int64), np.empty(rows, np.int64)
        for r in range(rows):
            firsts[r], lasts[r] = first[(at + r) // group], last[(at + r) // group]
        line = (head * total + at) * padded
        square = (head * band + row) * span
        _differentiate_strip(
            q.reshape(-1)[line:],
            do.reshape(-1)[line:],
            rows,
            firsts,
            lasts,
            table,
            head,
            keys,
            values,
            key_rows,
            start,
            stop,
            scale,
            p[square:],
            ds[square:],
            dq.reshape(-1)[line:],
        )


@kernel
def _add_rows(
    p: F64, column: int, span: int, w: F64, first: int, last: int, count: int, padded: int, y: F64, y_at: int
) -> None:
    """Continue ``y[key] += p[row, key] * w[row]`` for ``count`` keys, row in ``first..last`` ascending."""
    if first < last:
        p_at, w_at = first * span + column, first * padded
        rows_by_panels(
            count,
            padded // LANES,
            p,
            p_at,
            1,
            span,
            w,
            w_at,
            padded,
            LANES,
            last - first,
            y,
            y_at,
            padded,
        )


@kernel
def _add_rows_to_tile(
    p: F64, column: int, span: int, w: F64, firsts: I64, lasts: I64, padded: int, y: F64, y_at: int
) -> None:
    """Continue the sums of one tile of keys, each over the rows ``firsts .. lasts`` that see it.

    Rows that see all keys go through the tile; before and after them each key takes its own.
    """
    count = firsts.size
    shared_first = firsts[count - 1]
    shared_last = max(lasts[0], shared_first)
    for key in range(count):
        last = min(lasts[key], shared_first)
        _add_rows(p, column + key, span, w, firsts[key], last, 1, padded, y, y_at + key * padded)
    _add_rows(p, column, span, w, shared_first, shared_last, count, padded, y, y_at)
    for key in range(count):
        first = max(firsts[key], shared_last)
        _add_rows(p, column + key, span, w, first, lasts[key], 1, padded, y, y_at + key * padded)


@kernel
def key_gradient_part(
    q: F64,
    do: F64,
    group: int,
    begin: int,
    end: int,
    start: int,
    stop: int,
    seen_first: I64,
    seen_last: I64,
    p: F64,
    ds: F64,
    dk: F64,
    dv: F64,
    part: int,
    parts: int,
) -> None:
    """Continue one part's tiles of the keys ``start..stop`` with the rows of the band ``begin..end``.

    Key j is seen by the positions ``seen_first[j] .. seen_last[j]`` (last excluded), both non-decreasing in
    j. p and ds are the band's, with ``start`` their first column; dk ``[kv_heads, keys, padded_width]`` is
    not scaled yet.
    """
    heads, total, padded = q.shape
    rows, span = p.shape[1], p.shape[2]
    tiles = (stop - start + TILE_ROWS - 1) // TILE_ROWS
    for item in range(part, heads * tiles, parts):
        head, column = item % heads, item // heads * TILE_ROWS
        count = min(TILE_ROWS, stop - start - column)
        firsts, lasts = np.empty(count, np.int64), np.empty(count, np.int64)
        for key in range(count):
            j = start + column + key
            # rows of the band, counted from its first
            firsts[key] = (min(max(seen_first[j], begin), end) - begin) * group
            lasts[key] = (min(max(seen_last[j], begin), end) - begin) * group
        at, line = head * rows * span, (head * total + begin * group) * padded
        y_at = (head * dk.shape[1] + start + column) * padded
        queries, gradients = q.reshape(-1)[line:], do.reshape(-1)[line:]
        p_head, ds_head = p.reshape(-1)[at:], ds.reshape(-1)[at:]
        _add_rows_to_tile(ds_head, column, span, queries, firsts, lasts, padded, dk.reshape(-1), y_at)
        _add_rows_to_tile(p_head, column, span, gradients, firsts, lasts, padded, dv.reshape(-1), y_at)
