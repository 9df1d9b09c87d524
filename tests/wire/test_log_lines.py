"""One JSON line a call, with what it cost, and nothing of what was said."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import grpc
import pytest

from wire.calls import GREEDY, close, failure, generate, hang_up, ids, streaming
from wire.logs import Log, kept_log
from wire.serving import Serving, serving, until
from zeroulp.model.loading import load
from zeroulp.v1 import decoder_pb2 as pb

PROMPT = "xylophone"


@pytest.fixture(scope="module")
def log() -> Iterator[Log]:
    with kept_log() as log:
        yield log


@pytest.fixture(scope="module")
def own(log: Log) -> Iterator[Serving]:
    with serving(load("glass-default")) as served:
        yield served


def _line(log: Log, method: str, before: int = 0) -> dict[str, Any]:
    """Return the one line of a method since ``before`` lines; it may come after the answer."""
    until(lambda: len(log.lines("call")) > before)
    lines = log.lines("call")[before:]
    assert [line["method"] for line in lines] == [method]
    return lines[0]


def test_a_line_for_each_call(own: Serving, log: Log) -> None:
    stub = own.stub
    before = len(log.lines("call"))
    opened = stub.Prefill(pb.PrefillRequest(text=PROMPT))
    line = _line(log, "Prefill", before)
    count = len(opened.token_ids)
    assert (line["session"], line["status"], line["tokens"]) == (opened.session_id, "OK", count)
    assert (line["cache_appends"], line["level"]) == (4 * count, "info")
    assert line["attention_score_values"] == opened.work.attention_score_values
    assert 0 <= line["queue_ms"] <= line["ms"]
    assert 0 < line["compute_ms"] <= line["ms"]
    calls: dict[str, Callable[[], object]] = {
        "Decode": lambda: stub.Decode(pb.DecodeRequest(session_id=opened.session_id, text=PROMPT)),
        "Generate": lambda: generate(
            stub,
            pb.GenerateRequest(session_id=opened.session_id, text=PROMPT, max_new_tokens=5, sampling=GREEDY),
        ),
        "Score": lambda: stub.Score(pb.ScoreRequest(sequences=[pb.ScoreSequence(text=PROMPT)])),
    }
    for number, (method, call) in enumerate(calls.items(), before + 1):
        call()
        line = _line(log, method, number)
        assert (line["status"], line["tokens"] > 0) == ("OK", True)
        assert line["attention_score_values"] > 0
        assert line["compute_ms"] > 0
    close(stub, opened.session_id)
    assert _line(log, "CloseSession", before + 4)["session"] == opened.session_id
    assert PROMPT not in log.text


def test_a_failed_call_is_a_line_too(own: Serving, log: Log) -> None:
    before = len(log.lines("call"))
    failure(lambda: own.stub.Prefill(pb.PrefillRequest(token_ids=ids(5, 4000))))
    line = _line(log, "Prefill", before)
    assert (line["status"], line["reason"]) == ("INVALID_ARGUMENT", "TOKEN_OUT_OF_RANGE")
    assert "4000" not in str({key: value for key, value in line.items() if key != "peer"})


def test_a_call_that_never_left_the_queue_tells_how_long_it_was_there(own: Serving, log: Log) -> None:
    before = len(log.lines("call"))
    with own.paused():
        call = own.stub.Prefill.future(pb.PrefillRequest(token_ids=ids(5)))
        own.wait_for_calls(2)
        hang_up(call)
        own.wait_for_cancels(1)
    line = _line(log, "Prefill", before)
    assert (line["status"], line["compute_ms"]) == ("CANCELLED", 0.0)
    assert 0 < line["queue_ms"] <= line["ms"]


def test_a_stream_that_its_reader_left_is_a_line(own: Serving, log: Log) -> None:
    before = len(log.lines("call"))
    call = streaming(own.stub, pb.GenerateRequest(token_ids=ids(0), ignore_end_tokens=True))
    next(call)
    hang_up(call)
    line = _line(log, "Generate", before)
    assert line["status"] == "CANCELLED"
    own.wait_until_idle()
    assert len(log.lines("call")) == before + 1


@pytest.mark.parametrize("given", ["abc-1", None, "x" * 500])
def test_the_request_id_is_returned_and_logged(own: Serving, log: Log, given: str | None) -> None:
    before = len(log.lines("call"))
    metadata = (("x-request-id", given),) if given else ()
    _, call = own.stub.GetModel.with_call(pb.GetModelRequest(), metadata=metadata)
    returned = dict(call.initial_metadata())["x-request-id"]
    assert isinstance(returned, str)
    assert returned == _line(log, "GetModel", before)["request_id"]
    if given:
        assert returned == given[:128]
    else:
        assert len(returned) == 16


def test_the_request_id_comes_with_streams_and_failures(own: Serving) -> None:
    metadata = (("x-request-id", "mine"),)
    stream = streaming(own.stub, pb.GenerateRequest(token_ids=ids(0), max_new_tokens=1), metadata=metadata)
    assert dict(stream.initial_metadata())["x-request-id"] == "mine"
    list(stream)
    call = own.stub.Prefill.future(pb.PrefillRequest(), metadata=metadata)
    assert isinstance(call.exception(), grpc.RpcError)
    assert dict(call.initial_metadata())["x-request-id"] == "mine"


def test_a_client_cannot_write_lines_of_its_own(own: Serving, log: Log) -> None:
    before = len(log.lines("call"))
    forged = 'a"}\n{"event": "call", "method": "Forged"'
    failure(lambda: own.stub.CloseSession(pb.CloseSessionRequest(session_id=forged)))
    assert _line(log, "CloseSession", before)["session"] == forged
