"""Which rows of a batch are there, where they stand, and how far back each one sees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from zeroulp.model.errors import MalformedLayout
from zeroulp.model.kernels.arrays import I64


@dataclass(frozen=True, slots=True, eq=False)
class SequenceLayout:
    """B rows of T cells; a query attends from its range start through itself, inside its row's active prefix.

    ``active [B]`` counts the cells of each row that are there, the rest being padding. Per cell, ``starts
    [B, T]`` is the first cell of the row that it sees, and ``positions [B, T]`` its RoPE position. ``before``
    cells of each row lie in its cache already: cell t is the row's cell ``before + t``, and starts count
    from the row's first. Targets and loss masks are not in it. Raises ``MalformedLayout`` at construction,
    which copies the arrays: they are read-only, so that what was checked stays so.
    """

    active: I64
    starts: I64
    positions: I64
    before: int = 0
    highest_position: int = field(init=False)

    @classmethod
    def plain(cls, batch: int, length: int) -> SequenceLayout:
        """Return rows that are full, each one document from position 0."""
        return cls.padded([length] * batch, length)

    @classmethod
    def padded(cls, lengths: Sequence[int], length: int | None = None) -> SequenceLayout:
        """Return rows of one document each, padded to the longest or to ``length``."""
        T = max(lengths, default=0) if length is None else length
        cells = np.broadcast_to(np.arange(T), (len(lengths), T))
        return cls(_integers(lengths), np.zeros(cells.shape, np.int64), cells.copy())

    @classmethod
    def packed(cls, documents: Sequence[Sequence[int]]) -> SequenceLayout:
        """Return rows that hold documents of the given lengths one after the other."""
        T = max((sum(lengths) for lengths in documents), default=0)
        starts, positions = np.zeros((len(documents), T), np.int64), np.zeros((len(documents), T), np.int64)
        for b, lengths in enumerate(documents):
            if any(length < 1 for length in lengths):
                raise MalformedLayout(
                    f"row {b} packs documents of {list(lengths)} cells; each needs at least 1"
                )
            ends = np.cumsum(_integers(lengths))
            begins = np.repeat(ends - lengths, lengths)  # [active]
            starts[b, : begins.size] = begins
            starts[b, begins.size :] = begins[-1] if begins.size else 0
            positions[b, : begins.size] = np.arange(begins.size) - begins
        return cls(_integers([sum(lengths) for lengths in documents]), starts, positions)

    @classmethod
    def continued(cls, before: int, count: int) -> SequenceLayout:
        """Return one row of plain text whose first ``before`` cells are cached."""
        if before < 0 or count < 1:
            raise MalformedLayout(
                f"{count} cells after {before} were given; at least 1 after at least 0 are needed"
            )
        positions = np.arange(before, before + count, dtype=np.int64)
        # sound by construction, and made for every step: the checks would take longer than the rest
        made = cls.__new__(cls)
        made._fill(_integers([count]), np.zeros((1, count), np.int64), positions[None], before)
        object.__setattr__(made, "highest_position", before + count - 1)
        return made

    def part(self, first: int, count: int) -> SequenceLayout:
        """Return ``count`` cells from ``first`` of a layout of one full row; the cells before are cached."""
        B, T = self.shape
        if B != 1 or self.active[0] != T or not 0 <= first < first + count <= T:
            raise MalformedLayout(
                f"cells {first} to {first + count} of rows of {self.active.tolist()} cells were asked for; "
                "one full row has parts"
            )
        cells = slice(first, first + count)
        return SequenceLayout(
            _integers([count]), self.starts[:, cells], self.positions[:, cells], self.before + first
        )

    def _fill(self, active: I64, starts: I64, positions: I64, before: int) -> None:
        for array in (active, starts, positions):
            array.setflags(write=False)
        object.__setattr__(self, "active", active)
        object.__setattr__(self, "starts", starts)
        object.__setattr__(self, "positions", positions)
        object.__setattr__(self, "before", before)

    def __post_init__(self) -> None:
        self._fill(self.active.copy(), self.starts.copy(), self.positions.copy(), self.before)
        B, T = self.shape
        if self.active.shape != (B,) or self.starts.shape != (B, T):
            raise MalformedLayout(
                f"active {list(self.active.shape)}, starts {list(self.starts.shape)} and positions "
                f"{list(self.positions.shape)} were given; they must be [B], [B, T] and [B, T]"
            )
        if B < 1 or T < 1:
            raise MalformedLayout(f"{B} rows of {T} cells were given; at least 1 of each is needed")
        self._check_rows()
        object.__setattr__(self, "highest_position", int(self.positions.max()))

    def _check_rows(self) -> None:
        T = self.shape[1]
        if self.before < 0:
            raise MalformedLayout(f"{self.before} cells before the first were given; at least 0 are there")
        if self.active.min() < 1 or self.active.max() > T:
            b = int(np.argmax((self.active < 1) | (self.active > T)))
            raise MalformedLayout(f"row {b} has {self.active[b]} active cells; 1 to {T} are allowed")
        late = self.starts > self.before + np.arange(T)
        if self.starts.min() < 0 or late.any():
            b, t = np.argwhere((self.starts < 0) | late)[0]
            raise MalformedLayout(
                f"row {b}, cell {t} starts at {self.starts[b, t]}; 0 to {self.before + t} are allowed"
            )
        if (self.starts[:, 1:] < self.starts[:, :-1]).any():
            b, t = np.argwhere(self.starts[:, 1:] < self.starts[:, :-1])[0]
            raise MalformedLayout(f"row {b}, cell {t + 1} starts before the cell that precedes it")
        if self.positions.min() < 0:
            b, t = np.argwhere(self.positions < 0)[0]
            raise MalformedLayout(
                f"row {b}, cell {t} has the position {self.positions[b, t]}; 0 is the least"
            )

    @property
    def shape(self) -> tuple[int, int]:
        """B and T."""
        if self.positions.ndim != 2:
            raise MalformedLayout(f"positions have the shape {list(self.positions.shape)}; [B, T] is needed")
        B, T = self.positions.shape
        return B, T

    @property
    def cells(self) -> I64:
        """The flat indices ``[active cells]`` into ``[B * T]`` of the cells that are there, row by row."""
        T = self.shape[1]
        return np.flatnonzero((np.arange(T) < self.active[:, None]).reshape(-1))


def _integers(values: ArrayLike) -> I64:
    return np.asarray(values, np.int64)
