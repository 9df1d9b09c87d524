"""Writing rows of keys and values into cache blocks, and reading them back.

A layer's keys are ``[blocks, kv_heads, BLOCK / LANES, head_width, LANES]``: panels whose lanes are
positions, so that scores vectorise over keys. Its values are ``[blocks, kv_heads, BLOCK, padded_width]``:
lanes are features, so that mixes vectorise over features; the padding is zero.
"""

from __future__ import annotations

import numpy as np

from zeroulp.model.kernels.arrays import F64, I64
from zeroulp.model.kernels.jit import kernel
from zeroulp.model.kernels.vectors import LANES

BLOCK = 32
"""Positions in one cache block."""


@kernel
def store_rows(rows_k: F64, rows_v: F64, first: int, table: I64, keys: F64, values: F64) -> None:
    """Store rows ``[n, kv_heads * head_width]`` at positions ``first ...`` of the blocks in ``table``."""
    heads, width = keys.shape[1], keys.shape[3]
    for row in range(rows_k.shape[0]):
        block, at = table[(first + row) // BLOCK], (first + row) % BLOCK
        for head in range(heads):
            for f in range(width):
                keys[block, head, at // LANES, f, at % LANES] = rows_k[row, head * width + f]
                values[block, head, at, f] = rows_v[row, head * width + f]


@kernel
def load_rows(first: int, count: int, table: I64, keys: F64, values: F64, rows_k: F64, rows_v: F64) -> None:
    """Copy ``count`` stored positions from ``first`` back into rows ``[count, kv_heads * head_width]``."""
    heads, width = keys.shape[1], keys.shape[3]
    for row in range(count):
        block, at = table[(first + row) // BLOCK], (first + row) % BLOCK
        for head in range(heads):
            for f in range(width):
                rows_k[row, head * width + f] = keys[block, head, at // LANES, f, at % LANES]
                rows_v[row, head * width + f] = values[block, head, at, f]


def layer_blocks(blocks: int, kv_heads: int, head_width: int) -> tuple[F64, F64]:
    """Return empty keys and values of one layer; the values' padding is zero from the start."""
    padded = -(-head_width // LANES) * LANES
    # zeros, not empty: the system hands out zero pages and only touched blocks take memory
    keys = np.zeros((blocks, kv_heads, BLOCK // LANES, head_width, LANES))
    return keys, np.zeros((blocks, kv_heads, BLOCK, padded))
