"""An observer that keeps the stages it was asked for."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from zeroulp.model.kernels.arrays import F64, I64
from zeroulp.model.tracing.snapshot import Snapshot
from zeroulp.model.tracing.stages import Stage


class Tracer:
    """Keeps the chosen stages at the chosen positions of a pass, and copies nothing else.

    A pass may come in several steps: ``first`` is the position of the first row that the next step shows,
    and is set before it. A step that is run again writes the same places again. With a ``batch`` of B each
    step shows the same positions of B rows one after the other: ``[B * rows, features]``.
    """

    def __init__(
        self, stages: Sequence[Stage], positions: Sequence[int] | I64, *, first: int = 0, batch: int = 1
    ) -> None:
        """Make room; ``positions`` ascend. The memory of a stage is touched when it is seen."""
        self.first = first
        self._batch = batch
        self._positions = np.array(positions, np.int64)  # [P]
        self._stages = tuple(stages)
        self._kept: dict[tuple[int | None, str], F64] = {
            (stage.layer, stage.stage): np.empty((batch, len(positions), stage.features)) for stage in stages
        }

    def __call__(self, layer: int | None, stage: str, values: F64) -> None:
        """See ``values [batch * rows, features]``, the rows of the positions from ``first`` on."""
        kept = self._kept.get((layer, stage))
        if kept is None:
            return
        shown = values.reshape(self._batch, -1, values.shape[1])  # [B, rows, features]
        wanted = self.rows_within(self.first, shown.shape[1])
        kept[:, wanted] = shown[:, self._positions[wanted] - self.first]

    def rows_within(self, first: int, count: int) -> slice:
        """Return which of the chosen positions lie in ``first .. first + count``."""
        start, end = np.searchsorted(self._positions, (first, first + count))
        return slice(int(start), int(end))

    def snapshots(self) -> tuple[Snapshot, ...]:
        """Return what was kept, in the order of the stages; to be asked when the whole pass was seen."""
        return tuple(
            Snapshot(stage.name, self._positions, kept[0] if self._batch == 1 else kept)
            for stage, kept in zip(self._stages, self._kept.values(), strict=True)
        )
