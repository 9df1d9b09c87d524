"""Tokenizer and chat template of a GGUF file, chosen by its metadata."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from zeroulp.model.errors import UnsupportedModel
from zeroulp.model.text.chat import ChatTemplate
from zeroulp.model.text.gguf_bpe import GgufBpe
from zeroulp.model.text.gguf_sentencepiece import GgufSentencePiece
from zeroulp.model.text.gguf_vocabulary import GgufVocabulary, optional
from zeroulp.model.text.tokenizer import Tokenizer

_KINDS: Final[dict[str, Callable[[Mapping[str, object]], Tokenizer]]] = {
    "gpt2": GgufBpe,
    "llama": GgufSentencePiece,
}


def tokenizer_from_gguf(metadata: Mapping[str, object]) -> Tokenizer:
    """Return the tokenizer that ``tokenizer.ggml.*`` describes, which must be plain Python values.

    Raises ``UnsupportedModel`` or ``MalformedFile``, naming the key and its value; the model itself
    can still be served by token ids then.
    """
    model = optional(metadata, "tokenizer.ggml.model", str)
    if model not in _KINDS:
        raise UnsupportedModel(f"tokenizer.ggml.model is {model!r}; known are {', '.join(sorted(_KINDS))}")
    return _KINDS[model](metadata)


def chat_template_from_gguf(metadata: Mapping[str, object]) -> ChatTemplate | None:
    """Return the template in ``tokenizer.chat_template``, or None where there is none.

    Raises ``MalformedFile`` for one that does not parse.
    """
    source = optional(metadata, "tokenizer.chat_template", str)
    if source is None:
        return None
    vocabulary = GgufVocabulary.read(metadata, add_begin=False)
    begin, end = vocabulary.begin_id, vocabulary.end_id
    return ChatTemplate(
        source,
        bos_token="" if begin is None else vocabulary.texts[begin],
        eos_token="" if end is None else vocabulary.texts[end],
    )
