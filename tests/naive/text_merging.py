"""Byte-pair merging as it is defined: look for the best pair in the whole text, merge it, look again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise


def merge_document(symbols: Sequence[int], merges: Sequence[tuple[int, int]]) -> list[int]:
    """Apply merges given as pairs of ids by rank: lowest rank first, leftmost first."""
    current = list(symbols)
    while True:
        found = [(merges.index(pair), at) for at, pair in enumerate(pairwise(current)) if pair in merges]
        if not found:
            return current
        rank, at = min(found)
        current[at : at + 2] = [258 + rank]


def merge_scored(characters: str, scores: Mapping[str, float]) -> list[str]:
    """Join the neighbours whose joined text has the highest score, of equal ones the leftmost."""
    current = list(characters)
    while True:
        found = [
            (-scores[left + right], at)
            for at, (left, right) in enumerate(pairwise(current))
            if left + right in scores
        ]
        if not found:
            return current
        _, at = min(found)
        current[at : at + 2] = ["".join(current[at : at + 2])]
