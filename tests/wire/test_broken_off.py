"""Calls that nobody waits for any more: cancelled, or past their deadline."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import grpc
import pytest

from wire.calls import decode, failure, hang_up, ids, prefill, rows, session, streaming
from wire.models import SLOW
from wire.serving import Serving, until
from zeroulp.model.work import Work
from zeroulp.server.engine.lifecycle import Stage
from zeroulp.server.engine.stop_signal import StopSignal
from zeroulp.server.jobs.append import Append
from zeroulp.v1 import decoder_pb2 as pb

LONG = [(7 * index + index * index) % SLOW.vocabulary_size for index in range(SLOW.max_positions)]


def _running(serving: Serving) -> bool:
    return any(job.stage is Stage.RUNNING for job in list(serving.engine._running))


def test_a_cancelled_prefill_leaves_nothing(slow: Serving) -> None:
    before = slow.footprint
    call = slow.stub.Prefill.future(pb.PrefillRequest(token_ids=ids(*LONG)))
    until(lambda: _running(slow) and slow.engine._busy)
    assert slow.hall.pool.free < before[1]
    started = time.monotonic()
    hang_up(call)
    with pytest.raises(grpc.FutureCancelledError):
        call.result()
    slow.wait_until_idle()
    assert time.monotonic() - started < 1.0, "the engine went on computing for a client that has gone"
    assert slow.footprint == before
    assert rows(prefill(slow.stub, LONG[:3]).logits)[0] == slow.full_rows(LONG[:3])[-1]


def test_a_cancelled_decode_leaves_the_session_as_it_was(slow: Serving) -> None:
    # Fewer than a block, so that the twin shares nothing and has the same counters.
    opened, twin = (prefill(slow.stub, LONG[:30]).session_id for _ in range(2))
    before, footprint = session(slow.stub, opened), slow.footprint
    call = slow.stub.Decode.future(pb.DecodeRequest(session_id=opened, token_ids=ids(*LONG[30:])))
    until(lambda: _running(slow) and slow.engine._busy)
    hang_up(call)
    slow.wait_until_idle()
    assert session(slow.stub, opened) == before
    assert slow.footprint == footprint
    # The broken call has written past the committed rows; what follows must not see it.
    assert decode(slow.stub, opened, LONG[1:4]) == decode(slow.stub, twin, LONG[1:4])


def test_a_cancelled_score_leaves_nothing(slow: Serving) -> None:
    before = slow.footprint
    call = slow.stub.Score.future(pb.ScoreRequest(sequences=[pb.ScoreSequence(token_ids=ids(*LONG))] * 3))
    until(lambda: _running(slow) and slow.engine._busy)
    hang_up(call)
    slow.wait_until_idle()
    assert slow.footprint == before


def test_a_deadline_in_the_middle_of_a_prompt_leaves_nothing(slow: Serving) -> None:
    before = slow.footprint
    with pytest.raises(grpc.RpcError) as caught:
        slow.stub.Prefill(pb.PrefillRequest(token_ids=ids(*LONG)), timeout=0.15)
    assert isinstance(caught.value, grpc.Call)
    assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    slow.wait_until_idle()
    assert slow.footprint == before


def test_a_neighbour_of_a_cancelled_prefill_keeps_its_bits(slow: Serving) -> None:
    neighbour = prefill(slow.stub, LONG[:5])
    expected = slow.full_rows(LONG[:25])
    call = slow.stub.Prefill.future(pb.PrefillRequest(token_ids=ids(*LONG)))
    until(lambda: _running(slow) and slow.engine._busy)
    for position in range(5, 25):
        decoded = decode(slow.stub, neighbour.session_id, [LONG[position]])
        assert rows(decoded.logits)[0] == expected[position]
        if position == 8:
            assert not call.done(), "the prompt was over before it could be cancelled"
            hang_up(call)
    slow.wait_until_idle()


def test_a_call_whose_deadline_passed_in_the_queue_is_never_executed(boundary: Serving) -> None:
    opened = prefill(boundary.stub, [0, 99]).session_id
    before, footprint = session(boundary.stub, opened), boundary.footprint
    with boundary.paused():
        requests = [
            boundary.stub.Decode.future(pb.DecodeRequest(session_id=opened, token_ids=ids(100)), timeout=0.2),
            boundary.stub.Prefill.future(pb.PrefillRequest(token_ids=ids(0)), timeout=0.2),
            streaming(boundary.stub, pb.GenerateRequest(session_id=opened, max_new_tokens=2), timeout=0.2),
        ]
        boundary.wait_for_calls(4)
        for request in requests:
            assert request.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        boundary.wait_for_cancels(3)
    assert session(boundary.stub, opened) == before
    assert boundary.footprint == footprint


def test_a_call_cancelled_in_the_queue_leaves_its_session_free(boundary: Serving) -> None:
    opened = prefill(boundary.stub, [0, 99]).session_id
    footprint = boundary.footprint
    with boundary.paused():
        calls = [
            boundary.stub.Decode.future(pb.DecodeRequest(session_id=opened, token_ids=ids(100)))
            for _ in range(3)
        ]
        boundary.wait_for_calls(4)
        for call in calls:
            hang_up(call)
        boundary.wait_for_cancels(3)
    assert decode(boundary.stub, opened, [100]).position == 3
    assert boundary.footprint == footprint


def test_a_close_cancelled_in_the_queue_closes_nothing(boundary: Serving) -> None:
    opened = prefill(boundary.stub, [0, 99]).session_id
    with boundary.paused():
        call = boundary.stub.CloseSession.future(pb.CloseSessionRequest(session_id=opened))
        boundary.wait_for_calls(2)
        hang_up(call)
        boundary.wait_for_cancels(1)
    assert decode(boundary.stub, opened, [100]).position == 3


def test_two_hundred_cancelled_calls_end_at_the_baseline(boundary: Serving) -> None:
    stub = boundary.stub
    opened = prefill(stub, [0, 99]).session_id
    footprint = boundary.footprint
    for round_ in range(100):
        calls = [
            stub.Prefill.future(pb.PrefillRequest(token_ids=ids(0, 99, 100))),
            streaming(stub, pb.GenerateRequest(token_ids=ids(0, 99), close_session=True)),
        ]
        if round_ % 2:
            time.sleep(0.001)
        for call in calls:
            hang_up(call)
    boundary.wait_until_idle()
    # A Prefill that was committed before its cancellation has happened: its session is open, and whole.
    opened_now, free_now = boundary.footprint
    assert free_now - footprint[1] == footprint[0] - opened_now
    assert decode(stub, opened, [100]).position == 3


def test_a_committed_call_is_not_undone_by_a_late_cancel(boundary: Serving) -> None:
    opened = prefill(boundary.stub, [0]).session_id
    call = boundary.stub.Decode.future(pb.DecodeRequest(session_id=opened, token_ids=ids(99)))
    assert call.result().position == 2
    hang_up(call)
    assert session(boundary.stub, opened).position == 2
    assert failure(lambda: decode(boundary.stub, opened, [258])).reason == "TOKEN_OUT_OF_RANGE"


def test_a_cancel_just_before_the_publish_is_seen(boundary: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    opened, twin = (prefill(boundary.stub, [0, 99]).session_id for _ in range(2))
    before, footprint = session(boundary.stub, opened), boundary.footprint
    commit = Append.commit
    calls: list[Any] = []

    def late(self: Append, stop: StopSignal) -> Work:
        until(lambda: calls)
        hang_up(calls[0])
        until(stop._cancelled.is_set)
        return commit(self, stop)

    requests: list[Callable[[], object]] = [
        lambda: boundary.stub.Decode.future(pb.DecodeRequest(session_id=opened, token_ids=ids(100))),
        lambda: boundary.stub.Prefill.future(pb.PrefillRequest(token_ids=ids(0, 99))),
        lambda: streaming(boundary.stub, pb.GenerateRequest(session_id=opened, token_ids=ids(100))),
    ]
    with monkeypatch.context() as patch:
        patch.setattr(Append, "commit", late)
        for request in requests:
            calls.append(request())
            until(calls[0].done)
            boundary.wait_until_idle()
            calls.clear()
            assert boundary.footprint == footprint
    assert session(boundary.stub, opened) == before
    assert decode(boundary.stub, opened, [100]) == decode(boundary.stub, twin, [100])
