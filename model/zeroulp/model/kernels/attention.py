"""Grouped-query attention of new rows over a sequence's cache blocks.

For query row t of head i, over visible keys j ascending:
    s[j] = (sum_f q[f] * k[j, f]) * scale;  p = softmax(s);  o[f] = sum_j p[j] * v[j, f]
Keys outside ``first[t] .. last[t]`` are left out of every sum. Both are non-decreasing in t; ``last`` is
excluded.

Many rows are cut into strips, which the threads share. A few rows are one strip for each key/value head, too
few to share: there the three steps follow one another, and each is shared by itself.
"""

from __future__ import annotations

import numpy as np

from zeroulp.model.kernels.arrays import F64, I64
from zeroulp.model.kernels.attention_strip import (
    STRIP_ROWS,
    Strip,
    gather_queries,
    mixes,
    probabilities,
    raw_scores,
    scatter_mixes,
    strip_of,
)
from zeroulp.model.kernels.cache_rows import BLOCK
from zeroulp.model.kernels.jit import kernel
from zeroulp.model.kernels.vectors import LANES

SCORE_BLOCKS = 2
"""Blocks of keys that a thread takes at a time."""

MIX_PANELS = 4
"""Panels of features that a thread takes at a time."""


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
    """Attend with one part's share of the strips of q ``[T, heads * head_width]`` into y, of q's shape.

    Clears ``finite[part]`` if a visible score was not finite.
    """
    heads, width, padded = keys.shape[1], keys.shape[3], values.shape[3]
    group = q.shape[1] // width // heads
    grouped = q.shape[0] * group
    strips = (grouped + STRIP_ROWS - 1) // STRIP_ROWS
    # later rows see more keys: interleaving the strips gives every part the same share
    for item in range(part, heads * strips, parts):
        row = item // heads * STRIP_ROWS
        strip = strip_of(group, item % heads, row, min(STRIP_ROWS, grouped - row), first, last, table)
        s = np.empty(strip.rows * (strip.stop - strip.start) * BLOCK)
        raw_scores(strip, gather_queries(strip, q, group, width), keys, strip.start, strip.stop, s)
        for r in range(strip.rows):
            if not probabilities(strip, r, scale, s):
                finite[part] = 0
        o = np.empty(strip.rows * padded)
        mixes(strip, s, values, 0, padded // LANES, o)
        scatter_mixes(strip, o, padded, group, width, 0, width, y)


@kernel
def few_scores_part(
    q: F64, first: I64, last: I64, table: I64, keys: F64, s: F64, part: int, parts: int
) -> None:
    """Fill one part's share of the raw scores s ``[kv_heads, rows, span]`` of a few rows."""
    heads, width = keys.shape[1], keys.shape[3]
    group = q.shape[1] // width // heads
    runs = (table.size + SCORE_BLOCKS - 1) // SCORE_BLOCKS
    for item in range(part, heads * runs, parts):
        strip = strip_of(group, item // runs, 0, q.shape[0] * group, first, last, table)
        start = strip.start + item % runs * SCORE_BLOCKS
        stop = min(start + SCORE_BLOCKS, strip.stop)
        if start < stop:
            raw_scores(strip, gather_queries(strip, q, group, width), keys, start, stop, _own(strip, s))


@kernel
def few_probabilities_part(
    q: F64,
    first: I64,
    last: I64,
    table: I64,
    keys: F64,
    scale: float,
    s: F64,
    finite: I64,
    part: int,
    parts: int,
) -> None:
    """Turn one part's share of a few rows' raw scores into probabilities; clear ``finite[part]`` as above."""
    heads, width = keys.shape[1], keys.shape[3]
    group = q.shape[1] // width // heads
    rows = q.shape[0] * group
    for item in range(part, heads * rows, parts):
        strip = strip_of(group, item // rows, 0, rows, first, last, table)
        if not probabilities(strip, item % rows, scale, _own(strip, s)):
            finite[part] = 0


@kernel
def few_mixes_part(
    q: F64,
    first: I64,
    last: I64,
    table: I64,
    keys: F64,
    values: F64,
    s: F64,
    y: F64,
    part: int,
    parts: int,
) -> None:
    """Fill one part's share of the features of y, of q's shape, from a few rows' probabilities."""
    heads, width, padded = keys.shape[1], keys.shape[3], values.shape[3]
    group = q.shape[1] // width // heads
    rows, slices = q.shape[0] * group, (padded // LANES + MIX_PANELS - 1) // MIX_PANELS
    o = np.empty(rows * padded)
    for item in range(part, heads * slices, parts):
        strip = strip_of(group, item // slices, 0, rows, first, last, table)
        panel = item % slices * MIX_PANELS
        panels = min(MIX_PANELS, padded // LANES - panel)
        mixes(strip, _own(strip, s), values, panel, panels, o)
        scatter_mixes(strip, o, padded, group, width, panel * LANES, min(width, (panel + panels) * LANES), y)


@kernel
def _own(strip: Strip, s: F64) -> F64:
    """Return the scores of the strip's head."""
    size = strip.rows * (strip.stop - strip.start) * BLOCK
    return s[strip.head * size : (strip.head + 1) * size]
