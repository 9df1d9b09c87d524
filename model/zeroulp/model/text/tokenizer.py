"""What every tokenizer offers, and the table of tokens that all of them are built on.

Knows no model, no sampling and no stream: only text, bytes and token ids.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from zeroulp.model.errors import InvalidArgument, TokenOutOfRange


class Tokenizer(Protocol):
    """Text to token ids and back, for one vocabulary.

    ``kind`` is a stable name for clients; ``end_ids`` are the ids after which a generation is over.
    Control tokens steer the model and are no text: a stream leaves them out.
    """

    @property
    def kind(self) -> str:
        """Stable name of the algorithm, such as ``document-bpe`` or ``gguf-bpe``."""

    @property
    def vocabulary_size(self) -> int:
        """Number of token ids; the ids are 0 to ``vocabulary_size - 1``."""

    @property
    def end_ids(self) -> frozenset[int]:
        """The ids that end a generation."""

    def encode_prompt(self, text: str) -> list[int]:
        """Return the ids of a text that is to be continued: begin token if wanted, never an end token.

        Raises ``InvalidArgument`` for text that is no Unicode (a lone surrogate), like the others.
        """

    def encode_document(self, text: str) -> list[int]:
        """Return the ids of a complete text, with the begin and end tokens that the model wants."""

    def encode_plain(self, text: str) -> list[int]:
        """Return the ids of the text alone; for rendered chat templates, which write their own."""

    def token_bytes(self, token: int) -> bytes:
        """Return what one token contributes to the text; raises ``TokenOutOfRange``."""

    def is_control(self, token: int) -> bool:
        """Tell whether a token steers the model instead of being text; raises ``TokenOutOfRange``."""

    def decode(self, ids: Iterable[int], *, skip_control: bool = False) -> str:
        """Return the text of ``ids``; bytes that are no UTF-8 become U+FFFD."""


class TokenTable:
    """The bytes of every token, and which of them are control tokens. Immutable."""

    def __init__(self, pieces: Sequence[bytes], control: frozenset[int]) -> None:
        self._pieces = tuple(pieces)
        self._control = control

    @property
    def vocabulary_size(self) -> int:
        """Number of token ids."""
        return len(self._pieces)

    def token_bytes(self, token: int) -> bytes:
        """Return what one token contributes to the text; raises ``TokenOutOfRange``."""
        self._check(token)
        return self._pieces[token]

    def is_control(self, token: int) -> bool:
        """Tell whether a token steers the model instead of being text; raises ``TokenOutOfRange``."""
        self._check(token)
        return token in self._control

    def decode(self, ids: Iterable[int], *, skip_control: bool = False) -> str:
        """Return the text of ``ids``; bytes that are no UTF-8 become U+FFFD.

        Raises ``TokenOutOfRange`` for the first id outside the vocabulary.
        """
        pieces = (self.token_bytes(token) for token in ids if not (skip_control and self.is_control(token)))
        return b"".join(pieces).decode("utf-8", "replace")

    def _check(self, token: int) -> None:
        size = self.vocabulary_size
        if not 0 <= token < size:
            raise TokenOutOfRange(
                f"token id {token} is outside the vocabulary of {size} ids (0 to {size - 1})",
                field="token_ids",
                token=token,
                vocabulary_size=size,
            )


def utf8(text: str) -> bytes:
    """Return the UTF-8 bytes of ``text``; raises ``InvalidArgument`` for a lone surrogate."""
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InvalidArgument(
            f"text has a lone surrogate at character {error.start}, which is no Unicode text", field="text"
        ) from None
