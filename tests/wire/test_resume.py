"""Broken streams taken up again: together they are what one unbroken stream would have been."""

from __future__ import annotations

import grpc
import pytest

from wire.calls import GREEDY, Stream, decode, failure, generate, ids, prefill, rows, session, streaming
from wire.serving import Serving
from zeroulp.client import bits_of
from zeroulp.v1 import decoder_pb2 as pb

SAMPLING = pb.SamplingParameters(temperature=1.0, seed=7)


def _request(**more: object) -> pb.GenerateRequest:
    return pb.GenerateRequest(
        text="The ",
        max_new_tokens=40,
        sampling=SAMPLING,
        stop=["never \N{EURO SIGN}", "\x00\x01"],
        log_probabilities=True,
        top_entries=2,
        logits_scope=pb.LOGITS_SCOPE_LAST,
        ignore_end_tokens=True,
        **more,  # type: ignore[arg-type]
    )


def _resume(serving: Serving, session_id: str, position: int) -> Stream:
    return generate(serving.stub, pb.GenerateRequest(session_id=session_id, resume_position=position))


def _facts(tokens: list[pb.GeneratedToken]) -> list[bytes]:
    """Return all that was told of each token, as bytes."""
    return [token.SerializeToString(deterministic=True) for token in tokens]


def _broken_after(
    serving: Serving, count: int, request: pb.GenerateRequest
) -> tuple[str, list[pb.GeneratedToken]]:
    """Read ``count`` tokens of a stream and hang up."""
    call = streaming(serving.stub, request)
    opened = next(call).started.session_id
    tokens = [next(call).token for _ in range(count)]
    call.cancel()
    return opened, tokens


@pytest.fixture(scope="module")
def whole(glass: Serving) -> Stream:
    return generate(glass.stub, _request())


def _check_end(stream: Stream, whole: Stream) -> None:
    assert (stream.reason, stream.finished.text) == (whole.reason, whole.finished.text)
    assert stream.finished.position == whole.finished.position
    assert stream.finished.generated_tokens == whole.finished.generated_tokens
    assert stream.finished.total_work == whole.finished.total_work


@pytest.mark.parametrize("read", [0, 1, 5, 39])
def test_a_broken_stream_goes_on_as_if_unbroken(glass: Serving, whole: Stream, read: int) -> None:
    opened, seen = _broken_after(glass, read, _request())
    resumed = _resume(glass, opened, whole.started.position + read)
    assert (resumed.started.position, resumed.started.seed) == (whole.started.position, 7)
    assert _facts(seen + resumed.tokens) == _facts(whole.tokens)
    _check_end(resumed, whole)
    assert list(session(glass.stub, opened).token_ids) == [*whole.started.token_ids, *whole.ids]


def test_a_stream_broken_many_times(glass: Serving, whole: Stream) -> None:
    opened, seen = _broken_after(glass, 3, _request())
    while len(seen) < 36:
        request = pb.GenerateRequest(session_id=opened, resume_position=whole.started.position + len(seen))
        _, more = _broken_after(glass, 6, request)
        seen += more
    resumed = _resume(glass, opened, whole.started.position + len(seen))
    assert _facts(seen + resumed.tokens) == _facts(whole.tokens)
    _check_end(resumed, whole)


def test_a_finished_generation_is_told_again_from_every_position(glass: Serving, whole: Stream) -> None:
    stream = generate(glass.stub, _request())
    before = session(glass.stub, stream.started.session_id)
    start = stream.started.position
    for skipped in range(len(stream.tokens) + 1):
        resumed = _resume(glass, stream.started.session_id, start + skipped)
        assert _facts(resumed.tokens) == _facts(whole.tokens[skipped:])
        _check_end(resumed, whole)
        assert resumed.finished.work == pb.Work()
    assert session(glass.stub, stream.started.session_id) == before


def test_a_stop_string_that_begins_before_the_break_is_still_found(glass: Serving, whole: Stream) -> None:
    text = "".join(token.text for token in whole.tokens)
    index = len(text) // 2
    request = _request()
    request.stop[:] = [text[index : index + 8]]
    stopped = generate(glass.stub, request)
    assert stopped.reason == "STOP_STRING"
    for read in range(len(stopped.tokens)):
        opened, seen = _broken_after(glass, read, request)
        resumed = _resume(glass, opened, stopped.started.position + read)
        assert _facts(seen + resumed.tokens) == _facts(stopped.tokens)
        assert (resumed.reason, resumed.finished.stop) == ("STOP_STRING", stopped.finished.stop)


def test_rows_told_again_are_the_full_forwards(glass: Serving) -> None:
    stream = generate(glass.stub, _request())
    resumed = _resume(glass, stream.started.session_id, stream.started.position)
    full = glass.full_rows([*stream.started.token_ids, *stream.ids])
    for token in resumed.tokens:
        assert rows(token.logits) == [full[token.position - 1]]
    first = stream.tokens[0]
    assert bits_of(resumed.tokens[0].log_probability) == bits_of(first.log_probability)


@pytest.mark.parametrize("offset", [-1, 41])
def test_a_position_outside_the_generation_is_refused(glass: Serving, offset: int) -> None:
    stream = generate(glass.stub, _request())
    start = stream.started.position
    told = failure(lambda: _resume(glass, stream.started.session_id, start + offset))
    assert (told.code, told.fields) == (grpc.StatusCode.INVALID_ARGUMENT, ["resume_position"])
    assert str(start) in told.message
    assert str(start + 40) in told.message


def test_nothing_is_resumed_where_nothing_was_generated(glass: Serving) -> None:
    opened = prefill(glass.stub, [0, 5]).session_id
    assert failure(lambda: _resume(glass, opened, 2)).fields == ["resume_position"]
    stream = generate(glass.stub, _request())
    decode(glass.stub, stream.started.session_id, [5])
    told = failure(lambda: _resume(glass, stream.started.session_id, stream.started.position))
    assert (told.reason, told.fields) == ("INVALID_ARGUMENT_VALUE", ["resume_position"])


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"max_new_tokens": 3}, "max_new_tokens"),
        ({"sampling": GREEDY}, "sampling"),
        ({"token_ids": ids(1)}, "token_ids"),
        ({"text": ""}, "text"),
        ({"stop": ["a"]}, "stop"),
        ({"log_probabilities": True}, "log_probabilities"),
        ({"close_session": True}, "close_session"),
        ({"logits_scope": pb.LOGITS_SCOPE_LAST}, "logits_scope"),
    ],
)
def test_only_the_session_goes_with_a_position(glass: Serving, more: dict[str, object], field: str) -> None:
    request = pb.GenerateRequest(session_id="any", resume_position=1, **more)  # type: ignore[arg-type]
    told = failure(lambda: generate(glass.stub, request))
    assert (told.reason, told.fields) == ("INVALID_ARGUMENT_VALUE", [field])
    told = failure(lambda: generate(glass.stub, pb.GenerateRequest(resume_position=0)))
    assert told.fields == ["session_id"]


def test_a_refused_call_does_not_disturb_a_broken_generation(glass: Serving, whole: Stream) -> None:
    opened, seen = _broken_after(glass, 4, _request())
    failure(lambda: decode(glass.stub, opened, [5, 1024]))
    failure(lambda: generate(glass.stub, pb.GenerateRequest(session_id=opened, max_new_tokens=600)))
    failure(lambda: generate(glass.stub, pb.GenerateRequest(session_id=opened, stop=[""])))
    resumed = _resume(glass, opened, whole.started.position + 4)
    assert _facts(seen + resumed.tokens) == _facts(whole.tokens)
