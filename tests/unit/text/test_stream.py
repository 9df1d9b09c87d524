from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unit.text.gguf_samples import byte_level
from zeroulp.model.errors import TokenOutOfRange
from zeroulp.model.text import DocumentBpe, StreamDecoder, tokenizer_from_gguf

BYTES = DocumentBpe.bytes_only()
GLASS = DocumentBpe.glass_default()


def stream(tokenizer: DocumentBpe, ids: list[int]) -> list[str]:
    decoder = StreamDecoder(tokenizer)
    return [*(decoder.push(token) for token in ids), decoder.finish()]


@settings(derandomize=True, max_examples=500, deadline=None)
@given(st.lists(st.one_of(st.integers(0, 257), st.integers(0x80 + 2, 0xFF + 2))))
def test_joined_pieces_are_the_decoding_for_any_bytes(ids: list[int]) -> None:
    pieces = stream(BYTES, ids)
    assert "".join(pieces) == BYTES.decode(ids, skip_control=True)
    for token, piece in zip(ids, pieces, strict=False):
        assert not (BYTES.is_control(token) and piece)


@settings(derandomize=True, max_examples=300, deadline=None)
@given(st.lists(st.integers(0, 1023)))
def test_joined_pieces_are_the_decoding_for_any_tokens(ids: list[int]) -> None:
    assert "".join(stream(GLASS, ids)) == GLASS.decode(ids, skip_control=True)


@settings(derandomize=True, max_examples=300, deadline=None)
@given(st.text())
def test_characters_come_whole_and_once_and_as_soon_as_they_are_complete(text: str) -> None:
    decoder = StreamDecoder(BYTES)
    for character in text:
        *head, last = BYTES.encode_plain(character)
        assert [decoder.push(token) for token in head] == [""] * len(head)
        assert decoder.push(last) == character
    assert decoder.finish() == ""


def test_an_incomplete_tail_becomes_one_replacement_mark_at_the_end() -> None:
    assert stream(BYTES, [b + 2 for b in "a😀".encode()[:-1]]) == ["a", "", "", "", "\ufffd"]


def test_a_control_token_inside_a_character_does_not_split_it() -> None:
    first, second = BYTES.encode_plain("é")
    assert stream(BYTES, [first, 1, second]) == ["", "", "é", ""]


def test_control_tokens_that_have_a_spelling_are_left_out() -> None:
    tokenizer = tokenizer_from_gguf(byte_level())
    ids = tokenizer.encode_plain("<|im_start|>é<tool><|im_end|>")
    decoder = StreamDecoder(tokenizer)
    assert [decoder.push(token) for token in ids] == ["", "", "é", "<tool>", ""]


def test_ids_outside_the_vocabulary_are_refused() -> None:
    with pytest.raises(TokenOutOfRange):
        StreamDecoder(BYTES).push(258)
