"""What goes back through attention, on arrays.

The probabilities are computed again by the forward's own kernels, a band of positions at a time: what is kept
grows with the number of keys, not with its square.
"""

from __future__ import annotations

import numpy as np

from zeroulp.model.kernels.arrays import F64, I64
from zeroulp.model.kernels.backward import parts
from zeroulp.model.kernels.backward.jobs import run
from zeroulp.model.kernels.cache_rows import BLOCK, layer_blocks, store_rows

BAND = 64
"""Positions of a band: its probabilities and their gradients take some megabytes for a thousand keys."""


def attention(
    control: I64, q: F64, k: F64, v: F64, head_width: int, first: I64, last: I64, scale: float, dmixed: F64
) -> tuple[F64, F64, F64]:
    """Return dq, dk and dv, of the shapes of q ``[T, heads * head_width]`` and k, v ``[keys, kv_width]``.

    Row t saw the keys ``first[t] .. last[t]`` (last excluded, at least one), both non-decreasing in t; the
    forward found their scores finite. With the forward's probabilities p:
    ``dp[j] = sum_f dmixed[f]*v[j, f]``; ``t = sum_j p[j]*dp[j]``; ``ds[j] = p[j] * (dp[j] - t)``;
    ``dq[f] = (sum_j ds[j]*k[j, f]) * scale``; ``dk[j, f] = (sum_r ds[r, j]*q[r, f]) * scale``;
    ``dv[j, f] = sum_r p[r, j]*dmixed[r, f]``. j runs over the visible keys, r over the rows that saw key j:
    position by position, and within a position the query heads that read the key's head. All ascend.
    """
    heads, group = k.shape[1] // head_width, q.shape[1] // k.shape[1]
    key_panels, _ = _laid_out(k, v, heads)
    value_panels, key_rows = _laid_out(v, k, heads)
    cache = (np.arange(len(key_panels)), key_panels, value_panels, key_rows)  # the table is the identity
    padded = key_rows.shape[3]
    queries, gradients = _by_head(q, heads, group, padded), _by_head(dmixed, heads, group, padded)
    dq = np.empty_like(queries)
    dk, dv = np.zeros((heads, len(k), padded)), np.zeros((heads, len(k), padded))
    # key j was seen by positions seen[0][j] .. seen[1][j] (last excluded): the bounds turned round
    seen = [np.searchsorted(bound, np.arange(len(k)), side="right") for bound in (last, first)]
    sizes = (len(q), heads, group)
    for begin in range(0, len(q), BAND):
        end = min(begin + BAND, len(q))
        start, stop = int(first[begin]) // BLOCK * BLOCK, -(-int(last[end - 1]) // BLOCK) * BLOCK
        rows, span = (end - begin) * group, stop - start
        p, ds = np.empty((heads, rows, span)), np.empty((heads, rows, span))
        work = 2 * p.size * head_width
        run(
            control, parts.attention_queries, work, p.size, *sizes, head_width, padded, len(key_panels),
            begin, end, queries, gradients, first, last, *cache, scale, p.size, p, ds, dq,
        )  # fmt: skip
        run(
            control, parts.attention_keys, work, p.size, *sizes, padded, len(k),
            begin, end, start, min(stop, len(k)), span, queries, gradients, *seen, p, ds, dk, dv,
        )  # fmt: skip
    return (
        _by_row(dq, group, head_width) * scale,
        _by_row(dk, 1, head_width) * scale,
        _by_row(dv, 1, head_width),
    )


def _laid_out(panels: F64, rows: F64, heads: int) -> tuple[F64, F64]:
    """Return one array as a cache's keys and the other as a cache's values, in blocks of their order."""
    count = -(-len(rows) // BLOCK)
    keys, values = layer_blocks(count, heads, rows.shape[1] // heads)
    store_rows(panels, rows, 0, np.arange(count), keys, values)
    return keys, values


def _by_head(x: F64, heads: int, group: int, padded: int) -> F64:
    """Return x ``[n, heads * group * width]`` as ``[heads, n * group, padded]``, the padding zero."""
    split = x.reshape(len(x), heads, group, -1).transpose(1, 0, 2, 3)  # [heads, n, group, width]
    rows = np.zeros((*split.shape[:3], padded))
    rows[..., : split.shape[3]] = split
    return rows.reshape(heads, -1, padded)


def _by_row(x: F64, group: int, width: int) -> F64:
    """Return x ``[heads, n * group, padded]`` as ``[n, heads * group * width]``."""
    split = x.reshape(len(x), -1, group, x.shape[2])[..., :width]  # [heads, n, group, width]
    # contiguous, for a view of one head's rows would keep their padding between them
    return np.ascontiguousarray(split.transpose(1, 0, 2, 3)).reshape(split.shape[1], -1)
