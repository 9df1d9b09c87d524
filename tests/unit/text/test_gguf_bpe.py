from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unit.text.gguf_samples import byte_level
from zeroulp.model.errors import InvalidArgument, MalformedFile, TokenOutOfRange, UnsupportedModel
from zeroulp.model.text import ChatMessage, chat_template_from_gguf, tokenizer_from_gguf
from zeroulp.model.text.pretokenizers import PRE_TOKENIZERS

PLAIN = tokenizer_from_gguf(byte_level())

SAMPLE = "I'LL say 12345 a_bC!!\n\n  x"
DIGITS = ["I", "'", "LL", " say", " ", "1", "2", "3", "4", "5", " a", "_", "bC", "!!", "\n\n ", " x"]
GPT_2 = ["I", "'", "LL", " say", " 12345", " a", "_", "bC", "!!", "\n\n ", " x"]
LLAMA_3 = ["I", "'LL", " say", " ", "123", "45", " a", "_bC", "!!\n\n", " ", " x"]
CUTS = {
    "codeshell": DIGITS,
    "command-r": DIGITS,
    "deepseek-coder": [
        *("I", "'", "LL", " say", " ", "1", "2", "3", "4", "5"),
        *(" a", "_", "bC", "!!", "\n", "\n", " ", " x"),
    ],
    "deepseek-v3": LLAMA_3,
    "gpt-2": GPT_2,
    "llama-bpe": LLAMA_3,
    "llama-v3": LLAMA_3,
    "llama3": LLAMA_3,
    "mpt": GPT_2,
    "olmo": GPT_2,
    "phi-2": GPT_2,
    "qwen2": ["I", "'LL", " say", " ", "1", "2", "3", "4", "5", " a", "_bC", "!!\n\n", " ", " x"],
    "refact": DIGITS,
    "smollm": DIGITS,
    "starcoder": DIGITS,
    "tekken": ["I", "'LL", " say", " ", "1", "2", "3", "4", "5", " a", "_b", "C", "!!\n\n", " ", " x"],
}


@pytest.mark.parametrize("name", PRE_TOKENIZERS)
def test_every_family_cuts_text_its_own_way(name: str) -> None:
    pieces = [piece for piece, _ in PRE_TOKENIZERS[name].build().pre_tokenize_str(SAMPLE)]
    assert [piece.replace("Ġ", " ").replace("Ċ", "\n") for piece in pieces] == CUTS[name]


def test_deepseek_cuts_kana_and_han_from_other_letters() -> None:
    pieces = PRE_TOKENIZERS["deepseek-v3"].build().pre_tokenize_str("ab漢字かなcd")
    assert [span for _, span in pieces] == [(0, 2), (2, 6), (6, 8)]


@settings(derandomize=True, max_examples=200, deadline=None)
@given(st.text(), st.sampled_from(sorted(PRE_TOKENIZERS)))
def test_any_text_comes_back_where_every_byte_has_a_token(text: str, pre: str) -> None:
    if PRE_TOKENIZERS[pre].nfc:
        return
    tokenizer = PLAIN if pre == "gpt-2" else tokenizer_from_gguf(byte_level(pre=pre))
    ids = tokenizer.encode_plain(text)
    assert ids == [4 + byte for byte in text.encode("utf-8")]
    assert tokenizer.decode(ids) == text


def test_families_that_compose_characters_do_so() -> None:
    assert tokenizer_from_gguf(byte_level(pre="qwen2")).encode_plain("e\u0301") == [4 + 0xC3, 4 + 0xA9]
    assert len(PLAIN.encode_plain("e\u0301")) == 3


def test_merges_go_by_rank_and_stay_inside_a_word() -> None:
    tokenizer = tokenizer_from_gguf(byte_level(["ab", "bc", "ca"], ["a b", "b c", "c a"]))
    assert tokenizer.encode_plain("abcbc") == [260, 4 + ord("c"), 261]
    assert tokenizer.encode_plain("c a") == [4 + ord("c"), 4 + ord(" "), 4 + ord("a")]


def test_a_whole_word_is_a_token_without_merges_only_where_the_family_says_so() -> None:
    metadata = byte_level(["abc"], [])
    assert tokenizer_from_gguf(metadata | {"tokenizer.ggml.pre": "tekken"}).encode_plain("abc") == [260]
    assert tokenizer_from_gguf(metadata | {"tokenizer.ggml.pre": "qwen2"}).encode_plain("abc") == [
        101,
        102,
        103,
    ]


def test_a_byte_without_a_token_is_dropped_before_its_neighbours_merge() -> None:
    metadata = byte_level(["''"], ["' '"])
    metadata["tokenizer.ggml.tokens"][4 + 6] = "other"
    assert tokenizer_from_gguf(metadata).encode_plain("'\x06'") == [260]


def test_special_tokens_are_recognised_in_text_and_spelled_literally() -> None:
    assert PLAIN.encode_plain("<|im_start|>a<tool>") == [1, 4 + ord("a"), 3]
    assert PLAIN.token_bytes(1) == b"<|im_start|>"
    assert [token for token in range(PLAIN.vocabulary_size) if PLAIN.is_control(token)] == [0, 1, 2]
    assert PLAIN.decode([1, 4 + ord("a"), 3]) == "<|im_start|>a<tool>"
    assert PLAIN.decode([1, 4 + ord("a"), 3], skip_control=True) == "a<tool>"


@pytest.mark.parametrize(
    ("changes", "prompt", "document"),
    [
        ({}, [101], [101]),
        ({"add_bos_token": True}, [1, 101], [1, 101]),
        ({"add_eos_token": True}, [101], [101, 2]),
        ({"add_bos_token": True, "add_eos_token": True}, [1, 101], [1, 101, 2]),
        ({"pre": "llama-bpe"}, [1, 101], [1, 101]),
        ({"pre": "llama-bpe", "add_bos_token": False}, [101], [101]),
    ],
)
def test_begin_and_end_tokens_are_as_the_flags_say(
    changes: dict[str, Any], prompt: list[int], document: list[int]
) -> None:
    tokenizer = tokenizer_from_gguf(byte_level(**changes))
    assert tokenizer.encode_prompt("a") == prompt
    assert tokenizer.encode_document("a") == document
    assert tokenizer.encode_plain("a") == [101]


def test_a_generation_ends_at_named_ids_and_at_well_known_control_tokens() -> None:
    assert PLAIN.end_ids == {0, 2}
    assert tokenizer_from_gguf(byte_level(eos_token_id=3)).end_ids == {0, 2, 3}
    assert tokenizer_from_gguf(byte_level(eot_token_id=1)).end_ids == {0, 1, 2}
    assert tokenizer_from_gguf(byte_level(["<|end|>"])).end_ids == {0, 2}  # a plain word of that spelling
    assert tokenizer_from_gguf(byte_level(eos_token_id=3)).is_control(3)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"model": "bert"}, UnsupportedModel, r"tokenizer\.ggml\.model is 'bert'"),
        ({"model": None}, UnsupportedModel, r"tokenizer\.ggml\.model is None"),
        ({"pre": "default"}, UnsupportedModel, r"tokenizer\.ggml\.pre is 'default'; known are codeshell, "),
        ({"pre": None}, UnsupportedModel, r"tokenizer\.ggml\.pre is None"),
        ({"add_space_prefix": True}, UnsupportedModel, r"add_space_prefix is true"),
        ({"pre": 3}, MalformedFile, r"tokenizer\.ggml\.pre is 3; it must be str"),
        ({"tokens": None}, MalformedFile, r"tokenizer\.ggml\.tokens is missing"),
        ({"tokens": "abc"}, MalformedFile, r"tokenizer\.ggml\.tokens is 'abc'; it must be a list"),
        ({"tokens": ["a", 5]}, MalformedFile, r"tokenizer\.ggml\.tokens\[1\] is 5; it must be str"),
        ({"token_type": [1]}, MalformedFile, r"token_type has 1 for 260 tokens"),
        ({"token_type": [9] * 260}, MalformedFile, r"token_type has 9; types are 1 to 6"),
        ({"token_type": None}, MalformedFile, r"token_type is missing"),
        ({"merges": None}, MalformedFile, r"tokenizer\.ggml\.merges is missing"),
        ({"merges": ["ab"]}, MalformedFile, r"tokenizer\.ggml\.merges has 'ab'; it must be two tokens"),
        ({"merges": ["a zz"]}, MalformedFile, r"tokenizer\.ggml\.merges do not fit the tokens: .*zz"),
        ({"eos_token_id": 260}, MalformedFile, r"eos_token_id is 260; the file has 260 tokens"),
        ({"eos_token_id": True}, MalformedFile, r"eos_token_id is True; it must be int"),
        ({"add_bos_token": 1}, MalformedFile, r"add_bos_token is 1; it must be bool"),
        ({"add_bos_token": True, "bos_token_id": None}, MalformedFile, r"bos_token_id is missing"),
        ({"add_eos_token": True, "eos_token_id": None}, MalformedFile, r"eos_token_id is missing"),
    ],
)
def test_metadata_that_cannot_be_followed_is_refused_by_key_and_value(
    changes: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        tokenizer_from_gguf(byte_level(**changes))


def test_a_token_given_twice_is_refused() -> None:
    with pytest.raises(MalformedFile, match=r"tokens has 'x' as 124 and 260"):
        tokenizer_from_gguf(byte_level(["x"]))


def test_ids_and_text_are_checked() -> None:
    with pytest.raises(TokenOutOfRange, match="token id 260 is outside the vocabulary of 260 ids"):
        PLAIN.decode([260])
    with pytest.raises(InvalidArgument, match="lone surrogate"):
        PLAIN.encode_plain("\udfff")


def test_the_chat_template_knows_the_begin_and_end_tokens() -> None:
    metadata = byte_level() | {
        "tokenizer.chat_template": "{{ bos_token }}{{ messages[0].content }}{{ eos_token }}"
    }
    template = chat_template_from_gguf(metadata)
    assert template is not None
    assert (
        template.render([ChatMessage("user", "Hi")], add_generation_prompt=False)
        == "<|im_start|>Hi<|im_end|>"
    )
    assert chat_template_from_gguf(byte_level()) is None
