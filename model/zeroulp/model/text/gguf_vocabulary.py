"""The vocabulary of a GGUF file, read from its metadata and checked.

Knows the metadata's keys and types; knows no encoding and no file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final, TypeVar

from zeroulp.model.errors import MalformedFile

T = TypeVar("T")

# Names under which published models end a turn or a text; files name only one or two of theirs by id.
_END_NAMES: Final = frozenset(
    {
        "</s>",
        "<EOT>",
        "<|end|>",
        "<|endoftext|>",
        "<|end_of_text|>",
        "<|eom_id|>",
        "<|eot_id|>",
        "<|im_end|>",
        "<|return|>",
        "<end_of_turn>",
        "<end_of_utterance>",
    }
)


class TokenType(IntEnum):
    """What a token is, in the numbers of ``tokenizer.ggml.token_type``."""

    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4
    UNUSED = 5
    BYTE = 6


@dataclass(frozen=True, slots=True)
class GgufVocabulary:
    """Token texts and types by id, and which tokens frame a text."""

    texts: tuple[str, ...]
    types: tuple[TokenType, ...]
    begin_id: int | None
    end_id: int | None
    add_begin: bool
    add_end: bool
    end_ids: frozenset[int]

    @classmethod
    def read(cls, metadata: Mapping[str, object], *, add_begin: bool) -> GgufVocabulary:
        """Read and check it; ``add_begin`` holds where the file does not say.

        Raises ``MalformedFile`` naming the key, and the value where it is short.
        """
        texts = list_of(metadata, "tokenizer.ggml.tokens", str)
        numbers = list_of(metadata, "tokenizer.ggml.token_type", int)
        if len(numbers) != len(texts):
            raise MalformedFile(f"tokenizer.ggml.token_type has {len(numbers)} for {len(texts)} tokens")
        if unknown := set(numbers) - set(TokenType):
            raise MalformedFile(f"tokenizer.ggml.token_type has {min(unknown)}; types are 1 to 6")
        types = tuple(map(TokenType, numbers))

        def token_id(name: str) -> int | None:
            key = f"tokenizer.ggml.{name}_token_id"
            token = optional(metadata, key, int)
            if token is not None and not 0 <= token < len(texts):
                raise MalformedFile(f"{key} is {token}; the file has {len(texts)} tokens")
            return token

        special = {TokenType.CONTROL, TokenType.USER_DEFINED}
        end_ids = {id_ for id_ in map(token_id, ("eos", "eot", "eom")) if id_ is not None}
        end_ids |= {
            id_
            for id_, (text, type_) in enumerate(zip(texts, types, strict=True))
            if text in _END_NAMES and type_ in special
        }
        says_begin = optional(metadata, "tokenizer.ggml.add_bos_token", bool)
        vocabulary = cls(
            texts=tuple(texts),
            types=types,
            begin_id=token_id("bos"),
            end_id=token_id("eos"),
            add_begin=add_begin if says_begin is None else says_begin,
            add_end=bool(optional(metadata, "tokenizer.ggml.add_eos_token", bool)),
            end_ids=frozenset(end_ids),
        )
        if vocabulary.add_begin and vocabulary.begin_id is None:
            raise MalformedFile("tokenizer.ggml.add_bos_token asks for a token, but bos_token_id is missing")
        if vocabulary.add_end and vocabulary.end_id is None:
            raise MalformedFile("tokenizer.ggml.add_eos_token asks for a token, but eos_token_id is missing")
        return vocabulary

    @property
    def control_ids(self) -> frozenset[int]:
        """Tokens that are no text: control and unknown ones, and whatever ends a generation."""
        return self.end_ids.union(self.ids(TokenType.CONTROL, TokenType.UNKNOWN))

    @property
    def begin(self) -> list[int]:
        """What goes before a text."""
        return [self.begin_id] if self.add_begin and self.begin_id is not None else []

    @property
    def end(self) -> list[int]:
        """What goes after a complete text."""
        return [self.end_id] if self.add_end and self.end_id is not None else []

    def ids(self, *types: TokenType) -> list[int]:
        """Return the ids of the tokens of these types, ascending."""
        return [id_ for id_, type_ in enumerate(self.types) if type_ in types]

    def text_to_id(self, *types: TokenType) -> dict[str, int]:
        """Return the tokens of these types by text; raises ``MalformedFile`` for a text given twice."""
        table: dict[str, int] = {}
        for id_ in self.ids(*types):
            first = table.setdefault(self.texts[id_], id_)
            if first != id_:
                raise MalformedFile(f"tokenizer.ggml.tokens has {self.texts[id_]!r} as {first} and {id_}")
        return table


def optional(metadata: Mapping[str, object], key: str, kind: type[T]) -> T | None:
    """Return a value of exactly this type, or None where the key is absent; raises ``MalformedFile``."""
    value = metadata.get(key)
    if value is None:
        return None
    # Exactly, because a bool is an int to isinstance.
    if type(value) is not kind:
        raise MalformedFile(f"{key} is {value!r:.80}; it must be {kind.__name__}")
    return value


def list_of(metadata: Mapping[str, object], key: str, kind: type[T]) -> list[T]:
    """Return a list whose entries have this type; raises ``MalformedFile`` also where it is absent."""
    value: Any = metadata.get(key)
    if value is None:
        raise MalformedFile(f"{key} is missing")
    if isinstance(value, str | bytes) or not isinstance(value, Sequence):
        raise MalformedFile(f"{key} is {value!r:.80}; it must be a list")
    for index, entry in enumerate(value):
        if not isinstance(entry, kind):
            raise MalformedFile(f"{key}[{index}] is {entry!r:.80}; it must be {kind.__name__}")
    return list(value)
