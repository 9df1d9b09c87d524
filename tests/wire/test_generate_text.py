"""The text of generations: end tokens, stop strings, whole characters."""

from __future__ import annotations

import functools

import pytest

from wire.calls import Stream, failure, generate, ids, session
from wire.serving import Serving
from zeroulp.v1 import decoder_pb2 as pb

END = 1


def _request(seed: int, new: int = 200, stop: tuple[str, ...] = (), **more: bool) -> pb.GenerateRequest:
    sampling = pb.SamplingParameters(temperature=1.0, seed=seed)
    return pb.GenerateRequest(text="The ", max_new_tokens=new, sampling=sampling, stop=stop, **more)  # type: ignore[arg-type]


def _detokenized(serving: Serving, tokens: list[int]) -> str:
    return serving.stub.Detokenize(pb.DetokenizeRequest(token_ids=ids(*tokens), skip_control=True)).text


@pytest.fixture(scope="module")
def free(glass: Serving) -> Stream:
    """A long generation that nothing ends, of odd bytes and whole words."""
    return generate(glass.stub, _request(7, 300, ignore_end_tokens=True))


@functools.cache
def _seed_that_ends(serving: Serving) -> int:
    for seed in range(200):
        if END in generate(serving.stub, _request(seed, 300, ignore_end_tokens=True)).ids:
            return seed
    raise AssertionError("no seed draws an end token")


def test_the_deltas_are_the_decoding_of_the_new_tokens(glass: Serving, free: Stream) -> None:
    assert len(free.ids) == 300
    assert free.text == _detokenized(glass, free.ids)
    assert "\N{REPLACEMENT CHARACTER}" in free.text, "the sample should have broken characters too"


def test_a_prompt_that_ends_inside_a_character_leaks_nothing(glass: Serving) -> None:
    tokens = [0, 2 + 0xE2, 2 + 0x82]
    stream = generate(
        glass.stub,
        pb.GenerateRequest(token_ids=ids(*tokens), max_new_tokens=40, sampling=pb.SamplingParameters(seed=3)),
    )
    assert stream.text == _detokenized(glass, stream.ids)


def test_an_end_token_ends_and_is_committed(glass: Serving) -> None:
    seed = _seed_that_ends(glass)
    ended = generate(glass.stub, _request(seed, 300))
    assert (ended.reason, ended.ids[-1], ended.ids.count(END)) == ("END_TOKEN", END, 1)
    state = session(glass.stub, ended.started.session_id)
    assert state.token_ids[-1] == END
    assert state.position == ended.finished.position == ended.started.position + len(ended.ids)
    assert ended.text == _detokenized(glass, ended.ids)
    ignored = generate(glass.stub, _request(seed, 300, ignore_end_tokens=True))
    assert (ignored.reason, len(ignored.ids)) == ("LENGTH", 300)
    assert ignored.ids[: len(ended.ids)] == ended.ids


def _stops_of(text: str) -> list[str]:
    """Strings that do and do not occur, that begin like what comes, and that overlap."""
    middle = text[40:46]
    return [text[20], text[20:22], middle, middle + "never", text[:1], text[-3:], text[100:130]]


@pytest.mark.parametrize("which", range(7))
def test_a_stop_string_is_cut_out_and_the_rest_is_as_without(
    glass: Serving, free: Stream, which: int
) -> None:
    stop = _stops_of(free.text)[which]
    stopped = generate(glass.stub, _request(7, 300, (stop,), ignore_end_tokens=True))
    assert stopped.ids == free.ids[: len(stopped.ids)]
    state = session(glass.stub, stopped.started.session_id)
    assert state.position == stopped.finished.position == stopped.started.position + len(stopped.ids)
    index = free.text.find(stop)
    if index < 0:
        assert (stopped.reason, stopped.text) == ("LENGTH", free.text)
        assert not stopped.finished.HasField("stop")
        return
    assert (stopped.reason, stopped.finished.stop) == ("STOP_STRING", stop)
    assert stopped.text == free.text[:index]
    # The token that completed it is the last, and none too many was drawn.
    assert stop in _detokenized(glass, stopped.ids)
    assert stop not in _detokenized(glass, stopped.ids[:-1])


def test_text_is_held_back_only_while_a_match_is_possible(glass: Serving, free: Stream) -> None:
    never = free.text[40:46] + "never"
    held = generate(glass.stub, _request(7, 300, (never,), ignore_end_tokens=True))
    told = plain = ""
    for with_stop, without in zip(held.tokens, free.tokens, strict=True):
        told, plain = told + with_stop.text, plain + without.text
        assert plain.startswith(told)
        longest = max(size for size in range(len(never)) if not size or plain.endswith(never[:size]))
        assert len(plain) - len(told) == longest


def test_several_stops_the_first_complete_one_wins(glass: Serving, free: Stream) -> None:
    text = free.text
    late, early = text[60:64], text[30:33]
    stopped = generate(glass.stub, _request(7, 300, (late, early), ignore_end_tokens=True))
    first = min(text.find(late) + 4, text.find(early) + 3)
    assert stopped.finished.stop == (early if text.find(early) + 3 == first else late)


@pytest.mark.parametrize(
    ("stop", "says"),
    [
        (["a", ""], "empty"),
        (["a"] * 17, "16"),
        (["a" * 1025], "1024"),
        (["a" * 600, "\N{EURO SIGN}" * 150], "1024"),
    ],
)
def test_stops_out_of_bounds_are_refused(glass: Serving, stop: list[str], says: str) -> None:
    footprint = glass.footprint
    told = failure(lambda: generate(glass.stub, _request(1, 3, tuple(stop))))
    assert (told.reason, told.fields) == ("INVALID_ARGUMENT_VALUE", ["stop"])
    assert says in told.message
    assert glass.footprint == footprint


def test_stops_at_the_bounds_are_taken(glass: Serving) -> None:
    stop = ("\x00" * 64,) * 16
    assert len(generate(glass.stub, _request(1, 3, stop, close_session=True)).ids) == 3
