"""One named activation of a pass."""

from __future__ import annotations

import sys
from array import array
from dataclasses import dataclass, field

VALUE_BYTES = 8

DISPLAY_LIMIT = 64
"""Values of a tensor up to which it is shown whole."""

SAMPLE_EDGE = 3
"""Features at each end of a row that a sample shows."""


@dataclass(frozen=True, slots=True)
class SampleRow:
    """Some values of one row: the features that they belong to, (n,), and the values, (n,)."""

    position: int
    features: tuple[int, ...]
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class TraceTensor:
    """Values of shape (positions, features); row r belongs to the token at ``positions[r]``."""

    name: str
    shape: tuple[int, int]
    positions: tuple[int, ...]
    values: bytes = field(repr=False)
    """Little-endian f64, row-major."""

    def row(self, index: int) -> memoryview:
        """Return the bytes of one row; raises IndexError outside the rows."""
        rows, features = self.shape
        if not 0 <= index < rows:
            raise IndexError(f"row {index} of {rows}")
        width = features * VALUE_BYTES
        return memoryview(self.values)[index * width : (index + 1) * width]

    def floats(self, index: int) -> array[float]:
        """Return one row as (features,) f64 of this machine; raises IndexError outside the rows."""
        values = array("d", self.row(index).tobytes())
        if sys.byteorder == "big":
            values.byteswap()
        return values

    def sample(self) -> tuple[SampleRow, ...]:
        """Return the values to show: all of up to ``DISPLAY_LIMIT``, else the tensor's corners.

        They are the first and the last ``SAMPLE_EDGE`` features of the first and of the last row.
        """
        rows, features = self.shape
        chosen, shown = range(rows), tuple(range(features))
        if rows * features > DISPLAY_LIMIT:
            chosen = range(0, rows, max(1, rows - 1))
            if features > 2 * SAMPLE_EDGE:
                shown = (*range(SAMPLE_EDGE), *range(features - SAMPLE_EDGE, features))
        return tuple(self._sample_row(row, shown) for row in chosen)

    def _sample_row(self, row: int, features: tuple[int, ...]) -> SampleRow:
        values = self.floats(row)
        return SampleRow(self.positions[row], features, tuple(values[f] for f in features))
