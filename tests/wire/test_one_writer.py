"""One writer a session at a time, and readers that are slower than the server."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import grpc
import pytest

from wire.calls import GREEDY, close, decode, failure, ids, prefill, rows, session, streaming
from wire.models import SLOW
from wire.serving import Serving, until
from zeroulp.v1 import decoder_pb2 as pb
from zeroulp.v1.decoder_pb2_grpc import DecoderServiceStub


@contextmanager
def _unread(slow: Serving, session_id: str) -> Iterator[Any]:
    """Hold a session's turn with a stream that nobody reads."""
    call = streaming(
        slow.stub,
        pb.GenerateRequest(session_id=session_id, sampling=GREEDY, logits_scope=pb.LOGITS_SCOPE_LAST),
    )
    try:
        assert next(call).HasField("started")
        _settled(slow, session_id)
        yield call
    finally:
        call.cancel()
        slow.wait_until_idle()


def _settled(slow: Serving, session_id: str) -> int:
    """Return the session's length once it grows no more."""
    last = -1
    while (now := session(slow.stub, session_id).position) != last:
        last = now
        time.sleep(0.3)
    return now


def test_a_reader_that_does_not_read_bounds_the_server(slow: Serving) -> None:
    opened = prefill(slow.stub, [1, 2, 3]).session_id
    with _unread(slow, opened) as call:
        position = _settled(slow, opened)
        ahead = slow.engine.limits.generate_ahead
        # 16 KB a token: gRPC's own buffers hold some tens of them, not thousands.
        assert 3 + ahead <= position <= 3 + ahead + 300 < SLOW.max_positions
        for _ in range(position):
            assert next(call).HasField("token")
        until(lambda: session(slow.stub, opened).position > position)


def test_a_long_generation_is_unhurt_by_pauses_of_its_reader(slow: Serving) -> None:
    request = pb.GenerateRequest(
        token_ids=ids(1, 2, 3), max_new_tokens=150, sampling=GREEDY, logits_scope=pb.LOGITS_SCOPE_LAST
    )
    call = streaming(slow.stub, request)
    tokens, got = [], []
    for event in call:
        if event.HasField("token"):
            tokens.append(event.token.token_id)
            got += rows(event.token.logits)
            if len(tokens) in (1, 60):
                time.sleep(0.5)
    assert got == slow.full_rows([1, 2, 3, *tokens])[2:-1]


def test_get_session_is_answered_while_others_wait(slow: Serving) -> None:
    opened = prefill(slow.stub, [1, 2, 3]).session_id
    with _unread(slow, opened) as stream:
        decoded = slow.stub.Decode.future(pb.DecodeRequest(session_id=opened, token_ids=ids(9)))
        position = _settled(slow, opened)
        assert not decoded.done()
        stream.cancel()
        answer = decoded.result()
    assert answer.position > position
    tokens = list(session(slow.stub, opened).token_ids)
    assert (len(tokens), tokens[-1]) == (answer.position, 9)
    assert rows(answer.logits)[0] == slow.full_rows(tokens)[-1]


def test_close_waits_for_the_generation(slow: Serving) -> None:
    opened = prefill(slow.stub, [1, 2, 3]).session_id
    before = slow.footprint
    with _unread(slow, opened) as stream:
        closed = slow.stub.CloseSession.future(pb.CloseSessionRequest(session_id=opened))
        slow.wait_for_calls(2)  # two calls that are sent at once may arrive in either order
        late = slow.stub.Decode.future(pb.DecodeRequest(session_id=opened, token_ids=ids(9)))
        position = _settled(slow, opened)
        assert not closed.done()
        stream.cancel()
        assert closed.result().position >= position
        assert failure(late.result).reason == "SESSION_UNKNOWN"
    assert slow.footprint[0] == before[0] - 1


def test_writers_take_turns_and_lose_nothing(grouped: Serving) -> None:
    opened = prefill(grouped.stub, [1]).session_id
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda token: decode(grouped.stub, opened, [token, token]), range(10, 18)))
    assert sorted(answer.position for answer in answers) == list(range(3, 18, 2))
    tokens = list(session(grouped.stub, opened).token_ids)
    full = grouped.full_rows(tokens)
    for answer in answers:
        assert list(answer.token_ids) == tokens[answer.position - 2 : answer.position]
        assert rows(answer.logits)[0] == full[answer.position - 1]


def test_too_many_that_wait_are_told_so(grouped: Serving) -> None:
    opened = prefill(grouped.stub, [1]).session_id
    waiting = grouped.engine.limits.max_waiting_per_session
    with grouped.paused():
        calls = []
        for index in range(waiting + 3):
            request = pb.DecodeRequest(session_id=opened, token_ids=ids(index))
            calls.append(grouped.stub.Decode.future(request))
            grouped.wait_for_calls(2 + index)
    refused = [call for call in calls if call.exception() is not None]
    assert len(refused) == 2
    for call in refused:
        told = failure(call.result)
        assert (told.code, told.reason) == (grpc.StatusCode.ABORTED, "SESSION_BUSY")
        assert told.metadata == {"max_waiting": str(waiting)}
    assert session(grouped.stub, opened).position == 1 + waiting + 1
    assert decode(grouped.stub, opened, [1]).position == waiting + 3


def test_a_refused_writer_lets_the_next_one_go(grouped: Serving) -> None:
    opened = prefill(grouped.stub, [1]).session_id
    with grouped.paused():
        bad = grouped.stub.Decode.future(pb.DecodeRequest(session_id=opened, token_ids=ids(300)))
        grouped.wait_for_calls(2)
        good = grouped.stub.Decode.future(pb.DecodeRequest(session_id=opened, token_ids=ids(9)))
        grouped.wait_for_calls(3)
    assert failure(bad.result).reason == "TOKEN_OUT_OF_RANGE"
    assert good.result().position == 2


def test_of_two_closes_one_is_done(grouped: Serving) -> None:
    before = grouped.footprint
    opened = prefill(grouped.stub, [1]).session_id
    with grouped.paused():
        calls = [
            grouped.stub.CloseSession.future(pb.CloseSessionRequest(session_id=opened)) for _ in range(2)
        ]
        grouped.wait_for_calls(3)
    errors = [call.exception() for call in calls]
    assert errors.count(None) == 1
    assert grouped.footprint == before


def test_open_decode_and_close_in_quick_succession(boundary: Serving) -> None:
    before = boundary.footprint

    def live(index: int) -> bytes:
        opened = prefill(boundary.stub, [0, index]).session_id
        row = rows(decode(boundary.stub, opened, [100]).logits)[0]
        close(boundary.stub, opened)
        return row

    with ThreadPoolExecutor(8) as pool:
        got = list(pool.map(live, [index % 5 for index in range(200)]))
    expected = [boundary.full_rows([0, index, 100])[-1] for index in range(5)]
    assert got == [expected[index % 5] for index in range(200)]
    assert boundary.footprint == before


def test_a_stream_that_was_never_read_is_given_up_with_its_client(slow: Serving) -> None:
    before = slow.footprint
    with grpc.insecure_channel(slow.target) as channel:
        stub = DecoderServiceStub(channel)
        calls = [
            streaming(stub, pb.GenerateRequest(token_ids=ids(1, 2), sampling=GREEDY, close_session=True))
            for _ in range(5)
        ]
        for call in calls:
            assert next(call).HasField("started")
    slow.wait_until_idle()
    assert slow.footprint == before


@pytest.mark.parametrize("count", [4, 5])
def test_more_of_the_same_beside_it_changes_no_bit(grouped: Serving, count: int) -> None:
    expected = grouped.full_rows([3, 4, 5, 6])[-1]
    with grouped.paused():
        calls = [
            grouped.stub.Prefill.future(pb.PrefillRequest(token_ids=ids(3, 4, 5, 6))) for _ in range(count)
        ]
        grouped.wait_for_calls(count + 1)
    assert {rows(call.result().logits)[0] for call in calls} == {expected}
