"""The built-in models' tokenizer: byte-level pairs, with one token to open and one to close a document.

Ids 0 and 1 open and close a document, byte b is b + 2, the merge of rank r is 258 + r.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from typing import Final

from zeroulp.model.errors import MalformedFile
from zeroulp.model.text.merging import Merge, merge_symbols
from zeroulp.model.text.tokenizer import TokenTable, utf8

OPEN_ID: Final = 0
CLOSE_ID: Final = 1
FIRST_BYTE_ID: Final = 2
FIRST_MERGE_ID: Final = FIRST_BYTE_ID + 256


class DocumentBpe(TokenTable):
    """Byte-pair encoding over a whole document, without a pre-tokenizer.

    ``merges`` are pairs of ids by rank. Text never becomes id 0 or 1, whatever it says.
    Raises ``MalformedFile`` for a merge of ids that its rank cannot have, a merge given twice, or a
    ``vocabulary_size`` that is not exactly 258 plus the number of merges.
    """

    kind: Final = "document-bpe"
    end_ids: Final = frozenset({CLOSE_ID})

    def __init__(self, merges: Sequence[tuple[int, int]] = (), *, vocabulary_size: int | None = None) -> None:
        size = FIRST_MERGE_ID + len(merges)
        if vocabulary_size not in (None, size):
            raise MalformedFile(
                f"document tokenizer: {len(merges)} merges give {size} ids; the model has {vocabulary_size}"
            )
        pieces = [b"", b"", *(bytes([byte]) for byte in range(256))]
        self._merges: dict[tuple[int, int], Merge] = {}
        for rank, pair in enumerate(merges):
            left, right = pair
            # A merge may use earlier merges only, so that applying ranks in order is well defined.
            if not (FIRST_BYTE_ID <= left < len(pieces) and FIRST_BYTE_ID <= right < len(pieces)):
                raise MalformedFile(
                    f"document tokenizer: merge {rank} joins {left} and {right}; "
                    f"allowed are {FIRST_BYTE_ID} to {len(pieces) - 1}"
                )
            if pair in self._merges:
                raise MalformedFile(f"document tokenizer: merge {rank} joins {left} and {right} again")
            self._merges[pair] = Merge(rank, len(pieces))
            pieces.append(pieces[left] + pieces[right])
        super().__init__(pieces, control=frozenset({OPEN_ID, CLOSE_ID}))

    @classmethod
    def bytes_only(cls) -> DocumentBpe:
        """Return the tokenizer without merges, of 258 ids."""
        return cls()

    @classmethod
    def glass_default(cls) -> DocumentBpe:
        """Return the tokenizer of ``glass-default``: 766 shipped merges, 1,024 ids."""
        source = files("zeroulp.model.text").joinpath("data", "glass-default.merges")
        return cls(parse_merges(source.read_text("ascii")), vocabulary_size=1024)

    @property
    def merges(self) -> tuple[tuple[int, int], ...]:
        """The pairs of ids by rank."""
        return tuple(self._merges)

    def encode_prompt(self, text: str) -> list[int]:
        """Return the open token and the ids of ``text``."""
        return [OPEN_ID, *self.encode_plain(text)]

    def encode_document(self, text: str) -> list[int]:
        """Return the ids of ``text`` between the open and the close token."""
        return [OPEN_ID, *self.encode_plain(text), CLOSE_ID]

    def encode_plain(self, text: str) -> list[int]:
        """Return the ids of ``text`` alone."""
        return merge_symbols([byte + FIRST_BYTE_ID for byte in utf8(text)], self._merges)


def parse_merges(source: str) -> list[tuple[int, int]]:
    """Read merges by rank, one ``left right`` pair of ids a line; raises ``MalformedFile`` with the line."""
    merges = []
    for number, line in enumerate(source.splitlines(), start=1):
        match line.split(" "):
            case [left, right] if left.isdecimal() and right.isdecimal():
                merges.append((int(left), int(right)))
            case _:
                raise MalformedFile(f"merges: line {number} is {line!r}; it must be two ids")
    return merges
