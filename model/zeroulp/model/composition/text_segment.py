"""The next tokens of one sequence, on their way into a step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from zeroulp.model.cache.transaction import Transaction
from zeroulp.model.composition.layout import SequenceLayout
from zeroulp.model.composition.text_batch import TextBatch
from zeroulp.model.kernels.arrays import I64


@dataclass(frozen=True, slots=True, eq=False)
class TextSegment:
    """A batch of one row whose rows a transaction takes next."""

    transaction: Transaction
    batch: TextBatch

    @property
    def start(self) -> int:
        """The cache position of the first row."""
        return self.batch.layout.before

    @property
    def rows(self) -> int:
        """How many rows it has."""
        return int(self.batch.ids.shape[1])


def text_segment(transaction: Transaction, ids: Sequence[int] | I64) -> TextSegment:
    """Lay out ids ``[n]`` as plain text from the transaction's next position."""
    row = np.asarray(ids, np.int64)[None]  # [1, n]
    return TextSegment(
        transaction, TextBatch(row, SequenceLayout.continued(transaction.next_position, row.shape[1]))
    )


def row_segment(transaction: Transaction, row: TextBatch, most: int) -> TextSegment:
    """Return the next cells, ``most`` at the most, of a full row ``[1, T]`` in the transaction."""
    first = transaction.next_position
    count = min(most, row.ids.shape[1] - first)
    return TextSegment(
        transaction, TextBatch(row.ids[:, first : first + count], row.layout.part(first, count))
    )
