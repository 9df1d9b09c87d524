from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from naive.text_stops import cut_at_stop, releasable
from zeroulp.model.errors import InvalidArgument
from zeroulp.model.text import StopMatcher
from zeroulp.model.text.stops import MAX_STOPS

SHORT = st.text(alphabet="ab", min_size=1, max_size=5)


def run(stops: Sequence[str], chunks: Sequence[str]) -> tuple[str, str | None]:
    """Feed chunks, checking after each that exactly what can be shown has been."""
    matcher = StopMatcher(stops)
    shown = pushed = ""
    for chunk in chunks:
        shown += matcher.push(chunk)
        pushed += chunk
        text, stop = cut_at_stop(pushed, stops)
        assert matcher.matched == stop
        assert shown == (text if stop is not None else releasable(text, stops))
    return shown + matcher.finish(), matcher.matched


@settings(derandomize=True, max_examples=500, deadline=None)
@given(st.lists(SHORT, max_size=4), st.lists(st.text(alphabet="ab", max_size=4), max_size=8))
def test_any_pieces_of_any_text_equal_the_whole_text(stops: list[str], chunks: list[str]) -> None:
    assert run(stops, chunks) == cut_at_stop("".join(chunks), stops)


@pytest.mark.parametrize(
    ("stops", "text", "shown", "matched"),
    [
        (["DEFGHIJ"], "ABCDEFGHIJKL", "ABC", "DEFGHIJ"),
        (["DEFGHIJ"], "ABCDEFGHIX", "ABCDEFGHIX", None),
        (["aab"], "aaaab", "aa", "aab"),
        (["abab"], "abaabab", "aba", "abab"),
        (["abcd", "bc"], "xabcd", "xa", "bc"),
        (["bc", "abc"], "xabc", "x", "abc"),
        (["\n\n", "\n"], "a\n\nb", "a", "\n"),
        (["é"], "cafés", "caf", "é"),
        (["abc"], "ab", "ab", None),
        ([], "text", "text", None),
    ],
)
def test_every_way_to_cut_a_text_gives_the_same(
    stops: list[str], text: str, shown: str, matched: str | None
) -> None:
    for count in range(len(text)):
        for cuts in combinations(range(1, len(text)), count):
            edges = [0, *cuts, len(text)]
            chunks = [text[start:end] for start, end in pairwise(edges)]
            assert run(stops, chunks) == (shown, matched)


def test_text_is_held_back_only_while_it_can_become_a_match() -> None:
    matcher = StopMatcher(["STOP"])
    assert [matcher.push(piece) for piece in ["ab", "S", "T", "x", "ST", "OP", "more"]] == [
        "ab",
        "",
        "",
        "STx",
        "",
        "",
        "",
    ]
    assert matcher.matched == "STOP"
    assert matcher.finish() == ""


def test_text_that_was_never_pushed_cannot_begin_a_match() -> None:
    # A prompt that ends in "ST" is not pushed, so "OP" alone is no match.
    assert run(["STOP"], ["OP", "!"]) == ("OP!", None)


@pytest.mark.parametrize(
    ("stops", "message"),
    [(["a", ""], "stop string 1 is empty"), (["a"] * (MAX_STOPS + 1), "17 stop strings .* at most 16")],
)
def test_empty_and_too_many_stop_strings_are_refused(stops: list[str], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message) as caught:
        StopMatcher(stops)
    assert caught.value.violations[0].field == "stop"
