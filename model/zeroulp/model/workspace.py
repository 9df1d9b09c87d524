"""Memory for the intermediate values of a forward, used again for every block."""

from __future__ import annotations

import numpy as np

from zeroulp.model.kernels.arrays import F64

_LINE = 8
"""f64 values of a cache line: every array starts on one."""

_MOST_VIEWS = 256
"""Some steps' worth: a block takes about twenty arrays from each half."""


class Workspace:
    """Two halves in turn: a block's results live in one while the next block fills the other.

    Fresh arrays would cost a page fault every 4 KB, which is a tenth of a prefill. Belongs to one
    execution at a time; it keeps the size of the largest block that it has held. Blocks of one step ask
    for the same arrays, so the views of the last few steps are kept: slicing anew is a microsecond each.
    """

    def __init__(self) -> None:
        self._halves: list[F64] = [np.empty(0), np.empty(0)]
        self._now = 0
        self._used = 0
        self._views: dict[tuple[int, int, int, int], F64] = {}
        """By half, start, rows and features."""

    def turn(self) -> None:
        """Begin a block: what the block before the last one left is overwritten from here on."""
        self._now ^= 1
        self._used = 0

    def rows(self, rows: int, features: int) -> F64:
        """Return an uninitialised array ``[rows, features]`` that is good until the turn after the next."""
        size = rows * features
        start = self._used
        self._used += -(-size // _LINE) * _LINE
        if self._used > self._halves[self._now].size:
            # Arrays that were handed out before keep the old buffer alive.
            self._halves[self._now] = _aligned(2 * self._used)
            self._views.clear()
            start, self._used = 0, -(-size // _LINE) * _LINE
        place = (self._now, start, rows, features)
        view = self._views.get(place)
        if view is None:
            if len(self._views) >= _MOST_VIEWS:
                self._views.clear()
            view = self._halves[self._now][start : start + size].reshape(rows, features)
            self._views[place] = view
        return view


def _aligned(size: int) -> F64:
    raw = np.empty(size + _LINE)
    skip = -raw.ctypes.data % (8 * _LINE) // 8
    return raw[skip : skip + size]
