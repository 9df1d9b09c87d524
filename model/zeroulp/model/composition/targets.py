"""What a batch's logits are held against."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from zeroulp.model.composition.text_batch import TextBatch
from zeroulp.model.errors import InvalidArgument, TokenOutOfRange
from zeroulp.model.kernels.arrays import I64


@dataclass(frozen=True, slots=True, eq=False)
class Targets:
    """Ids ``[B, T]`` and which of them count, ``valid [B, T]``; the ids of other cells are not read."""

    ids: I64
    valid: NDArray[np.bool_]

    @classmethod
    def next_tokens(cls, batch: TextBatch) -> Targets:
        """Return each cell's successor in its document; a document's last cell has none."""
        ids, starts = batch.ids, batch.layout.starts
        active = np.arange(ids.shape[1]) < batch.layout.active[:, None]
        valid = np.zeros(ids.shape, np.bool_)
        valid[:, :-1] = active[:, 1:] & (starts[:, :-1] == starts[:, 1:])
        return cls(np.roll(ids, -1, axis=1), valid)

    def rows(self, batch: TextBatch, vocabulary_size: int) -> tuple[I64, NDArray[np.bool_]]:
        """Return the ids of the batch's active cells ``[n]`` and which of them count.

        Raises ``InvalidArgument`` or ``TokenOutOfRange`` for targets that do not fit the batch.
        """
        if not self.ids.shape == self.valid.shape == batch.ids.shape:
            raise InvalidArgument(
                f"targets {list(self.ids.shape)} with a mask {list(self.valid.shape)} were given for a batch "
                f"of {list(batch.ids.shape)}",
                field="targets",
            )
        cells = batch.layout.cells
        counted = self.valid.reshape(-1)
        if not counted.any() or np.delete(counted, cells).any():
            raise InvalidArgument(
                "the mask counts no target, or one in a padded cell; at least one is needed, all in cells "
                "that are there",
                field="targets",
            )
        ids = self.ids.reshape(-1)[cells]
        valid = counted[cells]
        bad = np.flatnonzero(valid & ((ids < 0) | (ids >= vocabulary_size)))
        if bad.size:
            b, t = divmod(int(cells[bad[0]]), batch.ids.shape[1])
            raise TokenOutOfRange(
                f"the target of row {b}, cell {t} is {ids[bad[0]]}; the vocabulary has the ids 0 to "
                f"{vocabulary_size - 1}",
                field="targets",
                token=int(ids[bad[0]]),
                vocabulary_size=vocabulary_size,
            )
        return ids, valid
