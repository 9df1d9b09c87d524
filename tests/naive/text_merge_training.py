"""Where the shipped merges come from: byte-pair training in its textbook form.

Run it to write the file anew:

    PYTHONPATH=tests python -m naive.text_merge_training
"""

from __future__ import annotations

import re
from collections import Counter
from itertools import pairwise
from pathlib import Path

FIRST_BYTE_ID = 2
FIRST_MERGE_ID = 258
GLASS_DEFAULT_MERGES = 1024 - FIRST_MERGE_ID

ROOT = Path(__file__).parents[2]
CORPUS = ROOT / "tests/unit/text/data/glass-default-corpus.txt"
SHIPPED = ROOT / "model/zeroulp/model/text/data/glass-default.merges"

# Words with the space before them, single digits, marks, and runs of white space, so that no merge
# learns a phrase of the training text by heart.
WORD = re.compile(r" ?[^\W\d_]+| ?\d| ?[^\w\s]+|_+|\s+(?!\S)|\s")


def train_merges(text: str, count: int) -> list[tuple[int, int]]:
    """Merge the most frequent pair, of equally frequent ones that of the lowest ids, ``count`` times."""
    words = Counter(
        tuple(byte + FIRST_BYTE_ID for byte in word.encode("utf-8")) for word in WORD.findall(text)
    )
    merges: list[tuple[int, int]] = []
    while len(merges) < count:
        pairs: Counter[tuple[int, int]] = Counter()
        for word, times in words.items():
            for pair in pairwise(word):
                pairs[pair] += times
        best = min(pairs, key=lambda pair: (-pairs[pair], pair))
        if pairs[best] < 2:
            raise ValueError(f"the text is too short: after {len(merges)} merges no pair occurs twice")
        merged = FIRST_MERGE_ID + len(merges)
        merges.append(best)
        words = Counter({_replace(word, best, merged): times for word, times in words.items()})
    return merges


def as_file(merges: list[tuple[int, int]]) -> str:
    return "".join(f"{left} {right}\n" for left, right in merges)


def _replace(word: tuple[int, ...], pair: tuple[int, int], merged: int) -> tuple[int, ...]:
    result: list[int] = []
    for symbol in word:
        # A symbol that was just merged cannot be the left half again: its id is new.
        if result and (result[-1], symbol) == pair:
            result[-1] = merged
        else:
            result.append(symbol)
    return tuple(result)


if __name__ == "__main__":
    SHIPPED.write_text(as_file(train_merges(CORPUS.read_text("utf-8"), GLASS_DEFAULT_MERGES)), "ascii")
