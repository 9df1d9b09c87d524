"""SentencePiece BPE with scores from a GGUF file (``tokenizer.ggml.model`` "llama")."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from zeroulp.model.errors import MalformedFile, UnsupportedModel
from zeroulp.model.text.gguf_vocabulary import GgufVocabulary, TokenType, list_of, optional
from zeroulp.model.text.merging import Merge, merge_symbols
from zeroulp.model.text.tokenizer import TokenTable, utf8

_SPACE: Final = "\u2581"  # how a SentencePiece token spells a space


class GgufSentencePiece(TokenTable):
    """Merges the neighbours whose joined token has the highest score, until no two of them join.

    Of equal scores the leftmost goes first. A character that is no token becomes its UTF-8 bytes'
    tokens. A space goes before the text, and after every control or user-defined token, unless
    ``add_space_prefix`` is false. Immutable, so threads may share it.

    Raises ``UnsupportedModel`` for a normalisation that is not done here, and ``MalformedFile`` for
    metadata that contradicts itself or lacks byte tokens; both name the key and its value.
    """

    kind: Final = "gguf-sentencepiece"

    def __init__(self, metadata: Mapping[str, object]) -> None:
        for key in ("tokenizer.ggml.remove_extra_whitespaces", "tokenizer.ggml.precompiled_charsmap"):
            if metadata.get(key):
                raise UnsupportedModel(f"{key} is set; text is encoded here as it stands")
        # These models want their begin token where the file does not say, as SentencePiece files do.
        self._vocabulary = vocabulary = GgufVocabulary.read(metadata, add_begin=True)
        prefix = optional(metadata, "tokenizer.ggml.add_space_prefix", bool)
        self._prefix = "" if prefix is False else _SPACE

        self._bytes = _byte_tokens(vocabulary)
        super().__init__([self._piece(id_) for id_ in range(len(vocabulary.texts))], vocabulary.control_ids)

        self._ids = vocabulary.text_to_id(TokenType.NORMAL)
        self._merges = self._read_merges(list_of(metadata, "tokenizer.ggml.scores", float))
        self._spelled = vocabulary.text_to_id(TokenType.CONTROL, TokenType.USER_DEFINED)
        longest_first = sorted(filter(None, self._spelled), key=len, reverse=True)
        self._spelling = re.compile("|".join(map(re.escape, longest_first)) or r"(?!)")

    @property
    def end_ids(self) -> frozenset[int]:
        """The ids that end a generation."""
        return self._vocabulary.end_ids

    def encode_prompt(self, text: str) -> list[int]:
        """Return the ids of a text to continue, after the begin token if the file wants one."""
        return self._vocabulary.begin + self.encode_plain(text)

    def encode_document(self, text: str) -> list[int]:
        """Return the ids of a complete text, with the begin and end tokens that the file wants."""
        return self.encode_prompt(text) + self._vocabulary.end

    def encode_plain(self, text: str) -> list[int]:
        """Return the ids of ``text`` alone."""
        utf8(text)
        ids: list[int] = []
        start = 0
        for found in self._spelling.finditer(text):
            ids += self._encode_words(text[start : found.start()])
            ids.append(self._spelled[found.group()])
            start = found.end()
        return ids + self._encode_words(text[start:])

    def _encode_words(self, text: str) -> list[int]:
        if not text:
            return []
        spelled = self._prefix + text.replace(" ", _SPACE)
        symbols = merge_symbols([self._symbol(character) for character in spelled], self._merges)
        ids: list[int] = []
        for symbol in symbols:
            if symbol >= 0:
                ids.append(symbol)
            else:
                ids += [self._bytes[byte] for byte in chr(-1 - symbol).encode("utf-8")]
        return ids

    def _symbol(self, text: str) -> int:
        """Return a token's id, or a negative number for a character that is no token."""
        return self._ids[text] if text in self._ids else -1 - ord(text)

    def _read_merges(self, scores: list[float]) -> dict[tuple[int, int], Merge]:
        """Return every way to join two symbols to a token, ranked by the token's score.

        Equal scores share a rank, which leaves the choice between them to the position in the text.
        """
        if len(scores) != self.vocabulary_size:
            raise MalformedFile(f"tokenizer.ggml.scores has {len(scores)} for {self.vocabulary_size} tokens")
        rank_of = {score: rank for rank, score in enumerate(sorted(set(scores), reverse=True))}
        merges: dict[tuple[int, int], Merge] = {}
        for text, id_ in self._ids.items():
            for cut in range(1, len(text)):
                left, right = text[:cut], text[cut:]
                # A part is a symbol of its own if it is a token or a single character.
                if all(part in self._ids or len(part) == 1 for part in (left, right)):
                    merges[self._symbol(left), self._symbol(right)] = Merge(rank_of[scores[id_]], id_)
        return merges

    def _piece(self, id_: int) -> bytes:
        text = self._vocabulary.texts[id_]
        match self._vocabulary.types[id_]:
            case TokenType.BYTE:
                return bytes([int(text[3:5], 16)])
            case TokenType.NORMAL:
                return text.replace(_SPACE, " ").encode("utf-8")
            case _:
                return text.encode("utf-8")


def _byte_tokens(vocabulary: GgufVocabulary) -> list[int]:
    """Return the ids of the 256 byte tokens, by byte."""
    spelled = vocabulary.text_to_id(TokenType.BYTE)
    names = [f"<0x{byte:02X}>" for byte in range(256)]
    if spelled.keys() != set(names):
        raise MalformedFile(f"tokenizer.ggml.tokens has {len(spelled)} byte tokens; wanted: <0x00> to <0xFF>")
    return [spelled[name] for name in names]
