from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from naive.text_merge_training import CORPUS, GLASS_DEFAULT_MERGES, SHIPPED, as_file, train_merges
from naive.text_merging import merge_document
from zeroulp.model.errors import InvalidArgument, MalformedFile, TokenOutOfRange
from zeroulp.model.text import DocumentBpe
from zeroulp.model.text.document_bpe import parse_merges

SHIPPED_MERGES = parse_merges(SHIPPED.read_text("ascii"))
GLASS = DocumentBpe.glass_default()


@st.composite
def merge_lists(draw: st.DrawFn) -> list[tuple[int, int]]:
    """Merges over the bytes of "a", "b" and "c" and over each other, so that they overlap a lot."""
    symbols = [99, 100, 101]
    merges: list[tuple[int, int]] = []
    for _ in range(draw(st.integers(0, 12))):
        pair = (draw(st.sampled_from(symbols)), draw(st.sampled_from(symbols)))
        if pair not in merges:
            symbols.append(258 + len(merges))
            merges.append(pair)
    return merges


def test_bytes_without_merges_are_framed_as_the_specification_says() -> None:
    tokenizer = DocumentBpe.bytes_only()
    assert tokenizer.vocabulary_size == 258
    assert tokenizer.encode_document("ab") == [0, 99, 100, 1]
    assert tokenizer.encode_prompt("ab") == [0, 99, 100]
    assert tokenizer.encode_plain("ab") == [99, 100]
    assert tokenizer.encode_document("") == [0, 1]
    assert tokenizer.end_ids == {1}
    assert tokenizer.kind == "document-bpe"


def test_a_merge_of_rank_r_is_id_258_plus_r() -> None:
    tokenizer = DocumentBpe([(99, 100), (258, 99)])
    assert tokenizer.encode_plain("abab") == [258, 258]
    assert tokenizer.encode_plain("aba") == [259]
    assert tokenizer.token_bytes(259) == b"aba"


def test_equal_ranks_merge_from_the_left() -> None:
    assert DocumentBpe([(99, 99)]).encode_plain("aaaaa") == [258, 258, 99]


def test_an_early_merge_can_enable_a_pair_of_lower_rank_than_its_neighbours() -> None:
    # "ab" (rank 0) is applied everywhere before "bc" (rank 1) may take a b.
    assert DocumentBpe([(99, 100), (100, 101)]).encode_plain("abcbc") == [258, 101, 259]


@settings(derandomize=True, max_examples=400, deadline=None)
@given(merge_lists(), st.text(alphabet="abc", max_size=40))
def test_merging_equals_the_textbook(merges: list[tuple[int, int]], text: str) -> None:
    symbols = [byte + 2 for byte in text.encode()]
    assert DocumentBpe(merges).encode_plain(text) == merge_document(symbols, merges)


@settings(derandomize=True, max_examples=60, deadline=None)
@given(st.one_of(st.text(max_size=30), st.text(alphabet=" ethanidou\n", max_size=60)))
def test_the_shipped_merges_equal_the_textbook(text: str) -> None:
    symbols = [byte + 2 for byte in text.encode()]
    assert GLASS.encode_plain(text) == merge_document(symbols, SHIPPED_MERGES)


@settings(derandomize=True, max_examples=300, deadline=None)
@given(st.text())
def test_text_comes_back_and_never_becomes_a_control_token(text: str) -> None:
    for tokenizer in (GLASS, DocumentBpe.bytes_only()):
        plain = tokenizer.encode_plain(text)
        assert tokenizer.decode(plain) == text
        assert not any(tokenizer.is_control(token) for token in plain)
        document = tokenizer.encode_document(text)
        assert document == [0, *plain, 1]
        assert tokenizer.decode(document) == tokenizer.decode(document, skip_control=True) == text


def test_merging_does_not_take_quadratic_steps() -> None:
    # A quadratic merge of this text would need 10**10 steps.
    ids = GLASS.encode_plain("the " * 25_000)
    assert GLASS.decode(ids) == "the " * 25_000
    assert len(ids) < 50_001


def test_the_shipped_merges_are_what_training_gives() -> None:
    trained = train_merges(CORPUS.read_text("utf-8"), GLASS_DEFAULT_MERGES)
    assert SHIPPED.read_text("ascii") == as_file(trained)
    assert len(trained) == 766
    assert GLASS.vocabulary_size == 1024


def test_decoding_replaces_what_is_no_utf8() -> None:
    tokenizer = DocumentBpe.bytes_only()
    assert tokenizer.decode([0xC3 + 2, 99]) == "\ufffda"


@pytest.mark.parametrize("token", [-1, 258, 1 << 32])
def test_ids_outside_the_vocabulary_are_refused_with_both_numbers(token: int) -> None:
    tokenizer = DocumentBpe.bytes_only()
    for call in (tokenizer.token_bytes, tokenizer.is_control, lambda id_: tokenizer.decode([99, id_])):
        with pytest.raises(TokenOutOfRange, match=rf"{token} .* 258 ids") as caught:
            call(token)
        assert caught.value.violations[0].field == "token_ids"
        assert caught.value.metadata == {"token": str(token), "vocabulary_size": "258"}


def test_a_lone_surrogate_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="character 1") as caught:
        GLASS.encode_prompt("a\ud800")
    assert caught.value.violations[0].field == "text"


@pytest.mark.parametrize(
    ("merges", "message"),
    [
        ([(99, 258)], "merge 0 joins 99 and 258"),
        ([(258, 99)], "merge 0 joins 258 and 99"),
        ([(1, 99)], "merge 0 joins 1 and 99"),
        ([(99, 0)], "merge 0 joins 99 and 0"),
        ([(99, 100), (99, 100)], "merge 1 joins 99 and 100 again"),
    ],
)
def test_impossible_merges_are_refused(merges: list[tuple[int, int]], message: str) -> None:
    with pytest.raises(MalformedFile, match=message):
        DocumentBpe(merges)


def test_a_vocabulary_beyond_the_merges_is_refused() -> None:
    with pytest.raises(MalformedFile, match="1 merges give 259 ids; the model has 300"):
        DocumentBpe([(99, 100)], vocabulary_size=300)


@pytest.mark.parametrize("line", ["99", "99 100 101", "99 x", "-1 4", "99  100"])
def test_malformed_merge_lines_are_refused_by_number(line: str) -> None:
    with pytest.raises(MalformedFile, match="line 2 is"):
        parse_merges(f"99 100\n{line}\n")
