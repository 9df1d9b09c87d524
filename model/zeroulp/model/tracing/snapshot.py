"""What a tracer kept of one stage."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from zeroulp.model.kernels.arrays import F64, I64

DISPLAY_LIMIT = 64
"""Values of a tensor up to which it is shown whole."""

SAMPLE_EDGE = 3
"""Features at each end of a row that a sample shows."""


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """Values ``[P, features]`` at P positions, or ``[B, P, features]`` of a batch of more than one row."""

    name: str
    positions: I64
    values: F64

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the values: the batch axis is dropped when B = 1."""
        return self.values.shape

    @property
    def sample(self) -> F64 | None:
        """The corners of a tensor that is larger than ``DISPLAY_LIMIT``; None for one that is not.

        They are the first and the last ``SAMPLE_EDGE`` features of the first and of the last row, over all
        batch rows: ``[2, 2 * SAMPLE_EDGE]``. A row of fewer features is shown whole, and a single row once.
        """
        if self.values.size <= DISPLAY_LIMIT:
            return None
        rows = self.values.reshape(-1, self.shape[-1])  # [B * P, features]
        ends = rows[[0, -1]] if len(rows) > 1 else rows
        if rows.shape[1] <= 2 * SAMPLE_EDGE:
            return ends.copy()
        return np.concatenate([ends[:, :SAMPLE_EDGE], ends[:, -SAMPLE_EDGE:]], axis=1)
