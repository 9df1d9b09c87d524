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
from zeroulp.model.kernels.attention_strip import (
    STRIP_ROWS,
    Strip,
    gather_row,
    mixes,
    probabilities,
    raw_scores,
    strip_of,
)
from zeroulp.model.kernels.backward.softmax import softmax_gradient_row
from zeroulp.model.kernels.cache_rows import BLOCK
from zeroulp.model.kernels.jit import kernel
from zeroulp.model.kernels.panels import MOST_ROWS, rows_by_panels
from zeroulp.model.kernels.vectors import LANES


@kernel
def _gathered(x: F64, rows: int, padded: int, width: int) -> F64:
    """Return flat ``x [rows, padded]`` as ``raw_scores`` wants its rows."""
    gathered = np.empty(rows * width)
    for r in range(rows):
        gather_row(x, r * padded, width, r, rows, gathered)
    return gathered


@kernel
def _differentiate_strip(
    strip: Strip,
    start: int,
    stop: int,
    q: F64,
    do: F64,
    keys: F64,
    values: F64,
    key_rows: F64,
    scale: float,
    p: F64,
    ds: F64,
    dq: F64,
) -> None:
    """Fill what a strip sees of its p and ds ``[rows, span]``, and its unscaled dq.

    ``start..stop`` are the blocks that the strip sees something of; its span is the band's.
    """
    width, padded, span = keys.shape[3], key_rows.shape[3], (strip.stop - strip.start) * BLOCK
    raw_scores(strip, _gathered(q, strip.rows, padded, width), keys, start, stop, p)
    raw_scores(strip, _gathered(do, strip.rows, padded, width), values, start, stop, ds)
    for r in range(strip.rows):
        first = r * span + strip.firsts[r] - strip.start * BLOCK
        last = r * span + strip.lasts[r] - strip.start * BLOCK
        if not probabilities(strip, r, scale, p):
            p[first:last] = np.nan  # as the forward marks such a row
        softmax_gradient_row(p, ds, first, last, ds)
    mixes(strip, ds, key_rows, 0, padded // LANES, dq)


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
        seen = strip_of(group, head, begin * group + row, min(STRIP_ROWS, band - row), first, last, table)
        strip = Strip(head, seen.row, seen.rows, seen.firsts, seen.lasts, start, stop, table)
        line = (head * total + seen.row) * padded
        square = (head * band + row) * span
        _differentiate_strip(
            strip,
            seen.start,
            seen.stop,
            q.reshape(-1)[line:],
            do.reshape(-1)[line:],
            keys,
            values,
            key_rows,
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
            1,
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
    tiles = (stop - start + MOST_ROWS - 1) // MOST_ROWS
    for item in range(part, heads * tiles, parts):
        head, column = item % heads, item // heads * MOST_ROWS
        count = min(MOST_ROWS, stop - start - column)
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
