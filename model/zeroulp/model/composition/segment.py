"""A run of new positions of one sequence: one sequence's share of a step."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from zeroulp.model.cache.transaction import Transaction
from zeroulp.model.configuration import Configuration
from zeroulp.model.kernels.arrays import I64


@dataclass(frozen=True, slots=True, eq=False)
class Segment:
    """Token ids ``[n]`` for the next n positions of an open transaction.

    Row i stands at cache position and RoPE position ``positions[i]`` and sees the keys
    ``first[i] .. last[i]`` (last excluded).
    """

    transaction: Transaction
    ids: I64
    positions: I64
    first: I64
    last: I64


def segment_of(configuration: Configuration, transaction: Transaction, ids: I64) -> Segment:
    """Lay out the next ``len(ids)`` rows of plain text: positions from the transaction's own."""
    start = transaction.next_position
    positions = np.arange(start, start + ids.size, dtype=np.int64)  # [n]
    first = np.array([configuration.first_visible(int(t)) for t in positions], np.int64)  # [n]
    return Segment(transaction, ids, positions, first, positions + 1)
