"""Byte-level BPE from a GGUF file (``tokenizer.ggml.model`` "gpt2"), run by the tokenizers library."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tokenizers import AddedToken, models, normalizers
from tokenizers import Tokenizer as Pipeline

from zeroulp.model.errors import MalformedFile, UnsupportedModel
from zeroulp.model.text.gguf_vocabulary import GgufVocabulary, TokenType, list_of, optional
from zeroulp.model.text.pretokenizers import PRE_TOKENIZERS, PreTokenizerRule
from zeroulp.model.text.tokenizer import TokenTable, utf8


class GgufBpe(TokenTable):
    """The model's own tokenizer, rebuilt from ``tokenizer.ggml.*``.

    Control and user-defined tokens are recognised wherever a text spells them. A byte for which the
    vocabulary has no token is dropped, as the models' own tokenizers do. Immutable, so threads may
    share it.

    Raises ``UnsupportedModel`` for a pre-tokenizer that is not known or a wish for a leading space,
    and ``MalformedFile`` for metadata that contradicts itself; both name the key and its value.
    """

    kind: Final = "gguf-bpe"

    def __init__(self, metadata: Mapping[str, object]) -> None:
        rule = _rule(metadata)
        self._vocabulary = GgufVocabulary.read(metadata, add_begin=rule.adds_begin)
        pieces = [
            _piece(text, type_)
            for text, type_ in zip(self._vocabulary.texts, self._vocabulary.types, strict=True)
        ]
        super().__init__(pieces, self._vocabulary.control_ids)
        merges = [_merge(line) for line in list_of(metadata, "tokenizer.ggml.merges", str)]
        self._pipeline = _pipeline(self._vocabulary, merges, rule)

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
        utf8(text)  # refuses by name what the library would refuse with an error of its own
        return list(self._pipeline.encode(text, add_special_tokens=False).ids)


def _rule(metadata: Mapping[str, object]) -> PreTokenizerRule:
    name = optional(metadata, "tokenizer.ggml.pre", str)
    if name not in PRE_TOKENIZERS:
        known = ", ".join(sorted(PRE_TOKENIZERS))
        raise UnsupportedModel(f"tokenizer.ggml.pre is {name!r}; known are {known}")
    # Files differ in what they mean by it for this kind of tokenizer, and a guess gives wrong ids.
    if optional(metadata, "tokenizer.ggml.add_space_prefix", bool):
        raise UnsupportedModel("tokenizer.ggml.add_space_prefix is true; byte-level BPE is read without it")
    return PRE_TOKENIZERS[name]


def _merge(line: str) -> tuple[str, str]:
    left, separator, right = line.partition(" ")
    if not (left and separator and right):
        raise MalformedFile(f"tokenizer.ggml.merges has {line!r:.80}; it must be two tokens")
    return left, right


def _pipeline(vocabulary: GgufVocabulary, merges: list[tuple[str, str]], rule: PreTokenizerRule) -> Pipeline:
    try:
        model = models.BPE(vocabulary.text_to_id(*TokenType), merges, ignore_merges=rule.ignore_merges)
    except MalformedFile:
        raise
    except Exception as error:  # the library raises bare exceptions
        raise MalformedFile(f"tokenizer.ggml.merges do not fit the tokens: {error}") from error
    pipeline = Pipeline(model)
    pipeline.pre_tokenizer = rule.build()
    if rule.nfc:
        pipeline.normalizer = normalizers.NFC()
    pipeline.add_special_tokens(
        [
            AddedToken(vocabulary.texts[id_], special=True, normalized=False)
            for id_ in vocabulary.ids(TokenType.CONTROL, TokenType.USER_DEFINED)
        ]
    )
    return pipeline


def _byte_alphabet() -> dict[str, int]:
    """Return GPT-2's spelling of bytes: printable Latin-1 as itself, the rest from U+0100 on."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(0x100 + n): byte for n, byte in enumerate(others)}


_BYTE_OF: Final = _byte_alphabet()


def _piece(text: str, type_: TokenType) -> bytes:
    if type_ is TokenType.NORMAL and all(character in _BYTE_OF for character in text):
        return bytes(_BYTE_OF[character] for character in text)
    # A token outside the alphabet was added to the vocabulary as plain text.
    return text.encode("utf-8")
