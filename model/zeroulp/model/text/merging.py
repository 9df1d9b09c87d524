"""The merge step that both kinds of byte-pair encoding share.

Knows pairs of symbols and their ranks only, neither text nor vocabulary.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from heapq import heapify, heappop, heappush
from itertools import pairwise
from typing import NamedTuple

_ABSENT = -1  # no neighbour on that side; positions start at 0


class Merge(NamedTuple):
    """What a pair of symbols becomes, and when: lower ranks go first."""

    rank: int
    symbol: int


def merge_symbols(symbols: Sequence[int], merges: Mapping[tuple[int, int], Merge]) -> list[int]:
    """Apply ``merges`` until none fits: always the lowest rank, of equal ranks the leftmost.

    Takes O(n log n) for n symbols: a linked list of what is left, and a heap of candidates in which
    outdated ones stay until they are popped.
    """
    current = list(symbols)
    before = list(range(-1, len(current) - 1))
    after = [*range(1, len(current)), _ABSENT]
    gone = [False] * len(current)

    candidates: list[tuple[int, int, int, int]] = []  # rank, left position, left and right symbol
    for position, pair in enumerate(pairwise(current)):
        if pair in merges:
            candidates.append((merges[pair].rank, position, *pair))
    heapify(candidates)

    while candidates:
        _, left, left_symbol, right_symbol = heappop(candidates)
        right = after[left]
        if gone[left] or right == _ABSENT or (current[left], current[right]) != (left_symbol, right_symbol):
            continue
        current[left] = merges[left_symbol, right_symbol].symbol
        gone[right] = True
        after[left] = after[right]
        if after[left] != _ABSENT:
            before[after[left]] = left
        for start in (before[left], left):
            if start != _ABSENT and after[start] != _ABSENT:
                pair = (current[start], current[after[start]])
                if pair in merges:
                    heappush(candidates, (merges[pair].rank, start, *pair))

    return [symbol for symbol, absorbed in zip(current, gone, strict=True) if not absorbed]
