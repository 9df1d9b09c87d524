"""The server's own bounds: sessions, cache, queue, message sizes."""

from __future__ import annotations

from collections.abc import Callable

import grpc
import pytest

from wire.calls import (
    GREEDY,
    Failure,
    close,
    decode,
    failure,
    generate,
    ids,
    prefill,
    rows,
    score_rows,
    session,
    streaming,
)
from wire.models import known_model
from wire.serving import Serving, serving
from zeroulp.model.cache.pool import block_bytes
from zeroulp.server.engine.limits import Limits
from zeroulp.v1 import decoder_pb2 as pb

EXHAUSTED = grpc.StatusCode.RESOURCE_EXHAUSTED
NAME = "grouped-query-7"


def _check_exhausted(told: Failure, reason: str) -> None:
    assert (told.code, told.reason) == (EXHAUSTED, reason)
    if reason == "MESSAGE_TOO_LARGE":  # it stays too large, so nobody should try again
        assert (told.retry_seconds, told.pushback) == (None, "-1")
    else:
        assert (told.retry_seconds, told.pushback) == (1.0, "1000")


def test_session_limit() -> None:
    with serving(known_model(NAME), Limits(max_sessions=2, cache_bytes=10**6)) as served:
        stub = served.stub
        first = prefill(stub, [1]).session_id
        prefill(stub, [2])
        for call in (
            lambda: prefill(stub, [3]),
            lambda: generate(stub, pb.GenerateRequest(token_ids=ids(3), max_new_tokens=2)),
        ):
            told = failure(call)
            _check_exhausted(told, "SESSION_LIMIT")
            assert told.metadata == {"max_sessions": "2"}
        assert len(score_rows(stub, [1, 2])) == 2
        assert len(generate(stub, pb.GenerateRequest(session_id=first, max_new_tokens=2)).ids) == 2
        close(stub, first)
        assert len(generate(stub, pb.GenerateRequest(token_ids=ids(3), max_new_tokens=2)).ids) == 2
        _check_exhausted(failure(lambda: prefill(stub, [3])), "SESSION_LIMIT")
        served.check_blocks()


def test_places_are_held_while_sessions_are_being_opened() -> None:
    with serving(known_model(NAME), Limits(max_sessions=2, cache_bytes=10**6)) as served:
        with served.paused():
            calls = [
                served.stub.Prefill.future(pb.PrefillRequest(token_ids=ids(*[1] * 60))) for _ in range(5)
            ]
            served.wait_for_calls(6)
        assert [call.exception() is None for call in calls].count(True) == 2
        assert served.footprint[0] == 2
        failure(lambda: prefill(served.stub, [300]))
        for opened in list(served.hall.sessions):
            close(served.stub, opened.id)
        assert prefill(served.stub, [1]).position == 1


@pytest.fixture(scope="module")
def two_blocks() -> Callable[[], Limits]:
    """A cache of two blocks: 64 positions, whoever has them."""
    return lambda: Limits(cache_bytes=2 * block_bytes(known_model(NAME).model.configuration))


def test_cache_budget(two_blocks: Callable[[], Limits]) -> None:
    with serving(known_model(NAME), two_blocks()) as served:
        stub = served.stub
        opened, twin = prefill(stub, [1, 2, 3]).session_id, prefill(stub, [1, 2, 3]).session_id
        before, footprint = session(stub, opened), served.footprint
        assert footprint == (2, 0)
        for call in (
            lambda: prefill(stub, [1]),
            lambda: decode(stub, opened, [1] * 30),
            lambda: score_rows(stub, [1]),
            lambda: generate(stub, pb.GenerateRequest(token_ids=ids(1), max_new_tokens=1)),
            lambda: generate(stub, pb.GenerateRequest(session_id=opened, max_new_tokens=30)),
            lambda: generate(stub, pb.GenerateRequest(session_id=opened, token_ids=ids(*[1] * 30))),
        ):
            told = failure(call)
            _check_exhausted(told, "CACHE_BUDGET")
            assert told.metadata["free_blocks"] == "0"
            assert (session(stub, opened), served.footprint) == (before, footprint)
        assert decode(stub, opened, [4, 5]) == decode(stub, twin, [4, 5])
        close(stub, twin)
        assert decode(stub, opened, [6] * 30).position == 35
        assert (
            rows(decode(stub, opened, [7]).logits)[0] == served.full_rows([1, 2, 3, 4, 5, *[6] * 30, 7])[-1]
        )


def test_a_generation_that_meets_a_full_cache_keeps_what_it_told(two_blocks: Callable[[], Limits]) -> None:
    with serving(known_model(NAME), two_blocks()) as served:
        stub = served.stub
        whole = generate(stub, pb.GenerateRequest(token_ids=ids(1, 2), sampling=GREEDY, close_session=True))
        other = prefill(stub, [9]).session_id
        call = streaming(stub, pb.GenerateRequest(token_ids=ids(1, 2), sampling=GREEDY))
        opened, told = next(call).started.session_id, []
        with pytest.raises(grpc.RpcError) as caught:
            told += [event.token.token_id for event in call]
        assert isinstance(caught.value, grpc.Call)
        assert caught.value.code() is EXHAUSTED
        assert session(stub, opened).position == 32
        close(stub, other)
        resumed = generate(stub, pb.GenerateRequest(session_id=opened, resume_position=2))
        assert resumed.ids == whole.ids
        served.check_blocks()


def test_unused_room_is_given_back_after_a_generation(two_blocks: Callable[[], Limits]) -> None:
    with serving(known_model(NAME), two_blocks()) as served:
        request = pb.GenerateRequest(token_ids=ids(1), max_new_tokens=60, sampling=GREEDY)
        call = streaming(served.stub, request)
        for _ in range(3):
            next(call)
        call.cancel()
        served.wait_until_idle()
        (opened,) = served.hall.sessions
        assert served.footprint == (1, 2 - -(-opened.session.position // 32))


def test_queue_full() -> None:
    with serving(known_model(NAME), Limits(max_calls=3, cache_bytes=10**6)) as served:
        opened = prefill(served.stub, [1]).session_id
        with served.paused():
            waiting = [
                served.stub.Decode.future(pb.DecodeRequest(session_id=opened, token_ids=ids(2)))
                for _ in range(2)
            ]
            served.wait_for_calls(3)
            for call in (
                lambda: decode(served.stub, opened, [3]),
                lambda: generate(served.stub, pb.GenerateRequest(token_ids=ids(1))),
                lambda: session(served.stub, opened),
            ):
                told = failure(call)
                _check_exhausted(told, "QUEUE_FULL")
                assert told.metadata == {"max_calls": "3"}
            assert served.stub.GetModel(pb.GetModelRequest(), timeout=10).name == NAME
        assert sorted(call.result().position for call in waiting) == [2, 3]
        assert list(session(served.stub, opened).token_ids) == [1, 2, 2]


def test_an_answer_that_is_too_large_is_refused_before_it_is_computed() -> None:
    row, slack = 300 * 8, 64 * 1024
    limits = Limits(max_message_bytes=slack + 10 * row, cache_bytes=10**6)
    with serving(known_model(NAME), limits) as served:
        stub = served.stub
        opened = prefill(stub, [1]).session_id
        before, footprint = session(stub, opened), served.footprint
        many, scope = ids(*[1] * 12), pb.LOGITS_SCOPE_ALL
        sequences = [pb.ScoreSequence(token_ids=ids(*[1] * 6))] * 2
        for call in (
            lambda: stub.Prefill(pb.PrefillRequest(token_ids=many, logits_scope=scope)),
            lambda: stub.Decode(pb.DecodeRequest(session_id=opened, token_ids=many, logits_scope=scope)),
            lambda: stub.Score(pb.ScoreRequest(sequences=sequences, logits_scope=scope)),
        ):
            told = failure(call)
            _check_exhausted(told, "MESSAGE_TOO_LARGE")
            assert told.metadata["max_message_bytes"] == str(limits.max_message_bytes)
            assert int(told.metadata["answer_bytes"]) > limits.max_message_bytes
            assert (session(stub, opened), served.footprint) == (before, footprint)
        assert len(rows(decode(stub, opened, [1] * 9, scope).logits)) == 9


def test_the_largest_answers_that_are_allowed_can_be_sent(grouped: Serving) -> None:
    sequence = pb.ScoreSequence(token_ids=ids(*[299] * 64), targets=ids(*[299] * 64))
    request = pb.ScoreRequest(sequences=[sequence] * 20, logits_scope=pb.LOGITS_SCOPE_ALL, top_entries=100)
    entries, tokens = 20 * 64 * 100, 20 * 64
    limits = Limits(
        max_message_bytes=tokens * 300 * 8 + entries * 24 + tokens * 48 + 64 * 1024, cache_bytes=10**6
    )
    with serving(known_model(NAME), limits) as served:
        answer = served.stub.Score(request)
        assert len(answer.scores) == 20
        assert answer.ByteSize() <= limits.max_message_bytes


def test_a_request_beyond_the_receive_limit_is_refused_by_the_transport(grouped: Serving) -> None:
    footprint = grouped.footprint
    with pytest.raises(grpc.RpcError) as caught:
        prefill(grouped.stub, [2**31] * (4 * 1024 * 1024))
    assert isinstance(caught.value, grpc.Call)
    assert caught.value.code() is EXHAUSTED
    assert grouped.footprint == footprint
