"""Text from tokens that arrive one by one: whole characters only, each of them once.

Knows nothing of the prompt: a stream starts with the first generated token, so that a prompt which
ends inside a character can put no text of its own into the first piece.
"""

from __future__ import annotations

import codecs

from zeroulp.model.text.tokenizer import Tokenizer


class StreamDecoder:
    """The incremental form of ``tokenizer.decode(ids, skip_control=True)``.

    What ``push`` and ``finish`` return, joined, is that decoding in every bit, however many tokens a
    character is spread over. Used by one generation and one thread.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def push(self, token: int) -> str:
        """Return the characters that ``token`` completes, perhaps none; raises ``TokenOutOfRange``."""
        if self._tokenizer.is_control(token):
            return ""
        return self._decoder.decode(self._tokenizer.token_bytes(token))

    def finish(self) -> str:
        """Return U+FFFD for a character that stayed incomplete, else nothing; then starts afresh."""
        return self._decoder.decode(b"", final=True)
