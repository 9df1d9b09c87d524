"""The SmolLM2 tokenizer with the standard library alone: no tokenizers, no regex engine with Unicode classes.

Written from the description of the algorithm: control tokens first, then every digit alone, then GPT-2's
words, then byte-pair merges by rank. Bytes without a token are dropped before anything merges.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

# Unicode's White_Space property, which is not what str.isspace asks.
WHITE_SPACE = set(
    "\t\n\v\f\r \u0085\u00a0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))
)
# Over one class letter a character: L letter, N number, B blank, W other white space, O the rest.
WORD = re.compile(r"B?L+|B?N+|B?O+|[BW]+(?![^BW])|[BW]+")
CONTRACTION = re.compile(r"'(?:s|t|re|ve|m|ll|d)")


class NaiveSmolLm:
    def __init__(self, metadata: Mapping[str, Any]) -> None:
        tokens, types = metadata["tokenizer.ggml.tokens"], metadata["tokenizer.ggml.token_type"]
        self.ids = {token: id_ for id_, token in enumerate(tokens)}
        self.rank = {
            tuple(line.split(" ")): rank for rank, line in enumerate(metadata["tokenizer.ggml.merges"])
        }
        spelled = sorted((t for t, type_ in zip(tokens, types, strict=True) if type_ in (3, 4)), key=len)
        self.control = re.compile("(" + "|".join(map(re.escape, reversed(spelled))) + ")")
        visible = [b for b in range(256) if 0x21 <= b <= 0x7E or 0xA1 <= b <= 0xAC or b >= 0xAE]
        hidden = [b for b in range(256) if b not in visible]
        self.letter = {b: chr(b) for b in visible} | {b: chr(256 + n) for n, b in enumerate(hidden)}

    def encode(self, text: str) -> list[int]:
        ids = []
        for index, part in enumerate(self.control.split(text)):
            if index % 2:
                ids.append(self.ids[part])
            else:
                for piece in pieces(part):
                    ids += [self.ids[token] for token in self.merge(piece)]
        return ids

    def merge(self, piece: str) -> list[str]:
        letters = [self.letter[byte] for byte in piece.encode("utf-8")]
        parts = [letter for letter in letters if letter in self.ids]
        while True:
            ranks = [(self.rank[pair], at) for at, pair in enumerate(pairwise(parts)) if pair in self.rank]
            if not ranks:
                return parts
            _, at = min(ranks)
            parts[at : at + 2] = [parts[at] + parts[at + 1]]


def pieces(text: str) -> Iterator[str]:
    run = ""
    for character in text:
        if class_of(character) == "N":
            yield from words(run)
            yield character
            run = ""
        else:
            run += character
    yield from words(run)


def words(text: str) -> Iterator[str]:
    classes = "".join(map(class_of, text))
    at = 0
    while at < len(text):
        found = CONTRACTION.match(text, at) or WORD.match(classes, at)
        assert found is not None
        yield text[at : found.end()]
        at = found.end()


def class_of(character: str) -> str:
    if character == " ":
        return "B"
    if character in WHITE_SPACE:
        return "W"
    category = unicodedata.category(character)[0]
    return category if category in "LN" else "O"
