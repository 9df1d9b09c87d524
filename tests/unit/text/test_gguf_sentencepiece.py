from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models

from naive.text_merging import merge_scored
from unit.text.gguf_samples import sentencepiece
from zeroulp.model.errors import InvalidArgument, MalformedFile, UnsupportedModel
from zeroulp.model.text import tokenizer_from_gguf

LETTERS = {"▁": -1000.0, "a": -1001.0, "b": -1002.0}
FIRST_WORD = 260

WORDS = st.lists(st.text(alphabet="ab▁", min_size=2, max_size=5), unique=True, max_size=12)
TEXTS = st.text(alphabet="ab é😀\n", max_size=24)


def ids_of(parts: list[str], words: dict[str, float]) -> list[int]:
    ids = []
    for part in parts:
        ids += [FIRST_WORD + [*words].index(part)] if part in words else [3 + byte for byte in part.encode()]
    return ids


@settings(derandomize=True, max_examples=400, deadline=None)
@given(WORDS, st.lists(st.sampled_from([-1.0, -2.0, -3.0]), min_size=12, max_size=12), TEXTS)
def test_merging_by_score_equals_the_textbook_also_among_equal_scores(
    words: list[str], scores: list[float], text: str
) -> None:
    table = LETTERS | dict(zip(words, scores, strict=False))
    tokenizer = tokenizer_from_gguf(sentencepiece(table, add_space_prefix=False))
    expected = ids_of(merge_scored(text.replace(" ", "▁"), table), table)
    assert tokenizer.encode_plain(text) == expected
    assert tokenizer.decode(expected) == text


def closed(words: list[str]) -> list[str]:
    """Add every prefix of every word, so that each has a way to be merged."""
    return sorted(
        {word[:end] for word in words for end in range(2, len(word) + 1)}, key=lambda w: (len(w), w)
    )


@settings(derandomize=True, max_examples=200, deadline=None)
@given(WORDS, TEXTS)
def test_distinct_scores_equal_the_tokenizers_library(words: list[str], text: str) -> None:
    # Words over two letters with distinct neighbours only: "aa" + "a" and "a" + "aa" give one token
    # in two ways, which the library ranks and SentencePiece leaves to the position.
    table = LETTERS | {w: -float(n) for n, w in enumerate(closed(words)) if not _is_power(w)}
    metadata = sentencepiece(table, add_space_prefix=False)
    vocabulary = {token: id_ for id_, token in enumerate(metadata["tokenizer.ggml.tokens"])}
    merges = [
        (-score, len(word[:cut]), word[:cut], word[cut:])
        for word, score in table.items()
        for cut in range(1, len(word))
        if word[:cut] in table and word[cut:] in table
    ]
    library = Tokenizer(
        models.BPE(vocabulary, [(left, right) for *_, left, right in sorted(merges)], byte_fallback=True)
    )
    expected = library.encode(text.replace(" ", "▁"), add_special_tokens=False).ids
    assert tokenizer_from_gguf(metadata).encode_plain(text) == expected


def _is_power(word: str) -> bool:
    return word in (word + word)[1:-1]


def test_a_space_goes_before_text_and_after_special_tokens_unless_the_file_says_otherwise() -> None:
    table = LETTERS | {"▁a": -1.0}
    a, space_a = FIRST_WORD + 1, FIRST_WORD + 3
    tokenizer = tokenizer_from_gguf(sentencepiece(table))
    assert tokenizer.encode_plain("a") == [space_a]
    assert tokenizer.encode_plain("") == []
    assert tokenizer.encode_plain("a<s>a<tool></s>") == [space_a, 1, space_a, 259, 2]
    assert tokenizer_from_gguf(sentencepiece(table, add_space_prefix=False)).encode_plain("a") == [a]


def test_begin_is_wanted_by_default() -> None:
    tokenizer = tokenizer_from_gguf(sentencepiece(LETTERS, add_space_prefix=False))
    assert tokenizer.encode_prompt("a") == tokenizer.encode_document("a") == [1, 261]
    flags = {"add_bos_token": False, "add_eos_token": True}
    tokenizer = tokenizer_from_gguf(sentencepiece(LETTERS, add_space_prefix=False, **flags))
    assert (tokenizer.encode_prompt("a"), tokenizer.encode_document("a")) == ([261], [261, 2])


def test_tokens_are_their_bytes() -> None:
    tokenizer = tokenizer_from_gguf(sentencepiece(LETTERS | {"▁a": -1.0}))
    assert [tokenizer.token_bytes(token) for token in (0, 1, 3 + 0xC3, 259, 260, 263)] == [
        b"<unk>",
        b"<s>",
        b"\xc3",
        b"<tool>",
        b" ",
        b" a",
    ]
    assert [token for token in range(264) if tokenizer.is_control(token)] == [0, 1, 2]
    assert tokenizer.end_ids == {2}
    assert tokenizer.kind == "gguf-sentencepiece"


def test_long_text_does_not_take_quadratic_steps() -> None:
    tokenizer = tokenizer_from_gguf(sentencepiece(LETTERS | {"ab": -1.0, "abab": -2.0}))
    assert len(tokenizer.encode_plain("ab" * 50_000)) == 25_001


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"scores": None}, MalformedFile, r"tokenizer\.ggml\.scores is missing"),
        ({"scores": [1.0]}, MalformedFile, r"tokenizer\.ggml\.scores has 1 for 263 tokens"),
        ({"token_type": [1] * 263}, MalformedFile, r"tokenizer\.ggml\.tokens has 0 byte tokens"),
        ({"remove_extra_whitespaces": True}, UnsupportedModel, r"remove_extra_whitespaces is set"),
        ({"precompiled_charsmap": [1, 2]}, UnsupportedModel, r"precompiled_charsmap is set"),
    ],
)
def test_metadata_that_cannot_be_followed_is_refused(
    changes: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        tokenizer_from_gguf(sentencepiece(LETTERS, **changes))


def test_a_lone_surrogate_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="lone surrogate"):
        tokenizer_from_gguf(sentencepiece(LETTERS)).encode_plain("\ud800")
