"""Token ids in rows: plain, padded or packed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from zeroulp.model.composition.layout import SequenceLayout
from zeroulp.model.errors import EmptyPrompt, MalformedLayout, TokenOutOfRange
from zeroulp.model.kernels.arrays import I64
from zeroulp.model.kernels.lookup import first_outside

PADDING = 0
"""The id in padded cells. Any id would do: nothing reads those cells."""


@dataclass(frozen=True, slots=True, eq=False)
class TextBatch:
    """Ids ``[B, T]`` and the layout that says which of them are there and what they see.

    Raises ``MalformedLayout`` where their shapes differ.
    """

    ids: I64
    layout: SequenceLayout

    def __post_init__(self) -> None:
        if self.ids.shape != self.layout.positions.shape:
            raise MalformedLayout(
                f"ids {list(self.ids.shape)} were given for a layout of {list(self.layout.shape)}"
            )

    @classmethod
    def of(cls, documents: Sequence[Sequence[int]]) -> TextBatch:
        """Return one row a document, padded where they differ in length; raises ``EmptyPrompt``."""
        for b, document in enumerate(documents):
            if not len(document):
                raise EmptyPrompt(f"document {b} has no tokens; at least one is needed")
        if not documents:
            raise EmptyPrompt("no documents were given; at least one is needed")
        return cls(_rows(documents), SequenceLayout.padded([len(document) for document in documents]))

    @classmethod
    def packed(cls, rows: Sequence[Sequence[Sequence[int]]]) -> TextBatch:
        """Return rows of several documents each, none of which sees another; raises ``EmptyPrompt``."""
        if not rows or not all(row and all(len(document) for document in row) for row in rows):
            raise EmptyPrompt("a row without documents or a document without tokens was given")
        layout = SequenceLayout.packed([[len(document) for document in row] for row in rows])
        return cls(_rows([[token for document in row for token in document] for row in rows]), layout)

    def checked_ids(self, vocabulary_size: int) -> I64:
        """Return the flat ids ``[B * T]``; raises ``TokenOutOfRange`` for the first that is not in it."""
        flat = self.ids.reshape(-1)
        outside = first_outside(flat, vocabulary_size)
        if outside < flat.size:
            b, t = divmod(outside, self.ids.shape[1])
            raise TokenOutOfRange(
                f"row {b}, cell {t} is {flat[outside]}; "
                f"the vocabulary has the ids 0 to {vocabulary_size - 1}",
                token=int(flat[outside]),
                vocabulary_size=vocabulary_size,
            )
        return flat


def _rows(documents: Sequence[Sequence[int]]) -> I64:
    ids = np.full((len(documents), max(len(document) for document in documents)), PADDING, np.int64)
    for b, document in enumerate(documents):
        ids[b, : len(document)] = document
    return ids
