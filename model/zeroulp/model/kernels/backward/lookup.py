"""The gradient of a table through the rows that were looked up in it."""

from __future__ import annotations

from zeroulp.model.kernels.arrays import F64, I64
from zeroulp.model.kernels.jit import kernel


@kernel
def lookup_gradient_part(ids: I64, dx: F64, width: int, table: F64, part: int, parts: int) -> None:
    """Compute one part's columns of ``dE[ids[r], d] += dx[r, d]``, r ascending, for flat dx and dE.

    ``dE`` is +0.0 everywhere before.
    """
    first, last = width * part // parts, width * (part + 1) // parts
    for row in range(ids.size):
        at, start = ids[row] * width, row * width
        for d in range(first, last):
            table[at + d] += dx[start + d]
