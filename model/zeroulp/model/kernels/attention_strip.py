"""Attention of one strip: some grouped rows of one key/value head, which share its keys and values.

Grouped rows are position-major: grouped row g is query head ``g % group`` of the key/value head's group at
position ``g // group``. Scores and probabilities are ``[rows, span]``, span the positions of the strip's
blocks. The gradients go through the same kernels, with the blocks of more rows as the span.
Knows no threads: who calls these kernels chooses the blocks and the panels.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from zeroulp.model.kernels.arrays import F64, I64
from zeroulp.model.kernels.cache_rows import BLOCK
from zeroulp.model.kernels.jit import kernel
from zeroulp.model.kernels.panels import MOST_ROWS, rows_by_panels
from zeroulp.model.kernels.softmax import softmax_row
from zeroulp.model.kernels.vectors import LANES

STRIP_ROWS = 3 * MOST_ROWS
"""Grouped rows that go over a block of keys or values while it is in the first-level cache."""


class Strip(NamedTuple):
    """Grouped rows ``row .. row + rows`` of a key/value head and what they see of the cache."""

    head: int
    row: int
    rows: int
    firsts: I64
    lasts: I64
    """Each row sees the positions ``firsts .. lasts``; both only grow with the row."""
    start: int
    stop: int
    """The blocks whose positions make up the span: all that some row sees something of."""
    table: I64


@kernel
def strip_of(group: int, head: int, row: int, rows: int, first: I64, last: I64, table: I64) -> Strip:
    """Return the strip of a head from a grouped row on; ``first`` and ``last`` are by position."""
    firsts, lasts = np.empty(rows, np.int64), np.empty(rows, np.int64)
    for r in range(rows):
        firsts[r], lasts[r] = first[(row + r) // group], last[(row + r) // group]
    start, stop = firsts[0] // BLOCK, (lasts[rows - 1] + BLOCK - 1) // BLOCK
    return Strip(head, row, rows, firsts, lasts, start, stop, table)


@kernel
def gather_queries(strip: Strip, q: F64, group: int, width: int) -> F64:
    """Return the strip's rows of q ``[T, heads * width]``, each tile as ``[width, tile rows]``."""
    gathered = np.empty(strip.rows * width)
    for r in range(strip.rows):
        time, head = (strip.row + r) // group, strip.head * group + (strip.row + r) % group
        gather_row(q.reshape(-1), time * q.shape[1] + head * width, width, r, strip.rows, gathered)
    return gathered


@kernel
def gather_row(x: F64, x_at: int, width: int, r: int, rows: int, gathered: F64) -> None:
    """Copy the row at ``x[x_at]`` to row r of ``gathered``, each tile of which is ``[width, tile rows]``."""
    tile_row = r // MOST_ROWS * MOST_ROWS
    count = min(MOST_ROWS, rows - tile_row)
    for f in range(width):
        gathered[tile_row * width + f * count + r - tile_row] = x[x_at + f]


@kernel
def raw_scores(strip: Strip, gathered: F64, keys: F64, start: int, stop: int, s: F64) -> None:
    """Fill ``s[r, j] = sum_f q[r, f] * k[j, f]`` for the blocks ``start..stop`` that a tile sees a key of."""
    heads, width, span = keys.shape[1], keys.shape[3], (strip.stop - strip.start) * BLOCK
    # taken out once: each access to a tuple's array counts a reference
    firsts, lasts, table, flat = strip.firsts, strip.lasts, strip.table, keys.reshape(-1)
    for block in range(start, stop):
        at = (table[block] * heads + strip.head) * BLOCK * width
        for row in range(0, strip.rows, MOST_ROWS):
            count = min(MOST_ROWS, strip.rows - row)
            if block * BLOCK >= lasts[row + count - 1] or (block + 1) * BLOCK <= firsts[row]:
                continue
            s_at = row * span + (block - strip.start) * BLOCK
            rows_by_panels(
                0,
                count,
                BLOCK // LANES,
                gathered,
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
def probabilities(strip: Strip, row: int, scale: float, s: F64) -> bool:
    """Turn one row's raw scores into probabilities in place; tell whether all were finite."""
    span = (strip.stop - strip.start) * BLOCK
    first, last = strip.firsts[row] - strip.start * BLOCK, strip.lasts[row] - strip.start * BLOCK
    return softmax_row(s, row, span, first, last, scale)


@kernel
def mixes(strip: Strip, p: F64, values: F64, panel: int, panels: int, o: F64) -> None:
    """Fill ``o[r, f] = sum_j p[r, j] * v[j, f]`` for ``panels`` panels of features from ``panel`` on."""
    heads, padded = values.shape[1], values.shape[3]
    firsts, lasts, table, flat = strip.firsts, strip.lasts, strip.table, values.reshape(-1)
    for r in range(strip.rows):
        o[r * padded + panel * LANES : r * padded + (panel + panels) * LANES] = 0.0
    for block in range(strip.start, strip.stop):
        at = (table[block] * heads + strip.head) * BLOCK * padded + panel * LANES
        for row in range(0, strip.rows, MOST_ROWS):
            rows = min(MOST_ROWS, strip.rows - row)
            _mix_tile(
                p,
                row,
                rows,
                strip.start,
                strip.stop,
                firsts,
                lasts,
                block,
                flat,
                at,
                padded,
                panel,
                panels,
                o,
            )


@kernel
def _mix_tile(
    p: F64,
    row: int,
    rows: int,
    origin: int,
    end: int,
    firsts: I64,
    lasts: I64,
    block: int,
    v: F64,
    v_at: int,
    padded: int,
    panel: int,
    panels: int,
    o: F64,
) -> None:
    """Continue the mixes of one tile with what its rows see of a block, whose panels start at ``v[v_at]``.

    Keys that all rows see go through the tile at once; before and after them each row takes its own.
    """
    start, stop, span = block * BLOCK, (block + 1) * BLOCK, (end - origin) * BLOCK
    shared_first = min(max(firsts[row + rows - 1], start), stop)
    shared_last = max(min(lasts[row], stop), shared_first)
    for run in range(2 * rows + 1):
        r, count, first, last = row, rows, shared_first, shared_last
        if run < rows:
            r, count = row + run, 1
            first, last = max(firsts[r], start), min(lasts[r], shared_first)
        elif run > rows:
            r, count = row + run - rows - 1, 1
            first, last = max(firsts[r], shared_last), min(lasts[r], stop)
        if first < last:
            rows_by_panels(
                1,
                count,
                panels,
                p,
                r * span + first - origin * BLOCK,
                span,
                1,
                v,
                v_at + (first - start) * padded,
                padded,
                LANES,
                last - first,
                o,
                r * padded + panel * LANES,
                padded,
            )


@kernel
def scatter_mixes(
    strip: Strip, o: F64, padded: int, group: int, width: int, first: int, last: int, y: F64
) -> None:
    """Copy the features ``first..last`` of the strip's rows to y ``[T, heads * width]``."""
    for r in range(strip.rows):
        time, head = (strip.row + r) // group, strip.head * group + (strip.row + r) % group
        for f in range(first, last):
            y[time, head * width + f] = o[r * padded + f]
