"""The text of a generation: whole characters, once, and nothing of a stop string."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from naive.text_stops import cut_at_stop
from zeroulp.model.errors import InvalidArgument
from zeroulp.model.text import DocumentBpe
from zeroulp.server.jobs.utterance import Utterance

BYTES = DocumentBpe.bytes_only()


def said(text: str, stops: list[str]) -> tuple[str, str | None]:
    """Push a text's bytes until a stop string ends it; return what was told and what stopped it."""
    utterance = Utterance(BYTES, stops)
    told = ""
    for token in BYTES.encode_plain(text):
        told += utterance.push(token)
        if utterance.stopped is not None:
            assert utterance.push(99) == ""
            break
    return told + utterance.finish(), utterance.stopped


def test_characters_are_whole() -> None:
    utterance = Utterance(BYTES, [])
    pieces = [utterance.push(token) for token in BYTES.encode_plain("aé🙂")]
    assert pieces == ["a", "", "é", "", "", "", "🙂"]
    assert utterance.finish() == ""


def test_an_incomplete_character_at_the_end() -> None:
    utterance = Utterance(BYTES, [])
    assert [utterance.push(token) for token in BYTES.encode_plain("é")[:1]] == [""]
    assert utterance.finish() == "�"


def test_a_stop_string_is_held_back_and_never_told() -> None:
    utterance = Utterance(BYTES, ["END"])
    assert [utterance.push(token) for token in BYTES.encode_plain("xEyEN")] == ["x", "", "Ey", "", ""]
    assert utterance.stopped is None
    assert utterance.push(BYTES.encode_plain("D")[0]) == ""
    assert utterance.stopped == "END"
    assert utterance.finish() == ""


def test_what_was_held_back_is_told_at_the_end() -> None:
    assert said("xEN", ["END"]) == ("xEN", None)


@given(st.text("abé", max_size=12), st.lists(st.text("abé", min_size=1, max_size=3), max_size=3))
def test_any_text(text: str, stops: list[str]) -> None:
    assert said(text, stops) == cut_at_stop(text, stops)


@pytest.mark.parametrize("stops", [[""], ["x"] * 17])
def test_stops_that_are_not_allowed(stops: list[str]) -> None:
    with pytest.raises(InvalidArgument):
        Utterance(BYTES, stops)


def test_control_tokens_are_no_text() -> None:
    utterance = Utterance(BYTES, [])
    assert (utterance.push(0), utterance.push(99), utterance.push(1)) == ("", "a", "")


def test_without_a_tokenizer_there_is_no_text() -> None:
    utterance = Utterance(None, [])
    assert (utterance.push(5), utterance.finish(), utterance.stopped) == ("", "", None)
