"""Exceptions that nobody planned: the client is told a number, the log has the rest, nobody hangs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import grpc
import pytest

from wire.calls import Failure, decode, failure, generate, ids, prefill, rows, session, streaming
from wire.logs import Log, kept_log
from wire.models import known_model
from wire.serving import Serving, serving
from zeroulp.server.jobs.append import Append
from zeroulp.server.wire.service import DecoderService
from zeroulp.v1 import decoder_pb2 as pb

SECRET = "/secret/path"
METHODS = [method.name for method in pb.DESCRIPTOR.services_by_name["DecoderService"].methods]
STREAMING = {
    method.name
    for method in pb.DESCRIPTOR.services_by_name["DecoderService"].methods
    if method.server_streaming
}


@pytest.fixture
def log() -> Iterator[Log]:
    with kept_log() as log:
        yield log


@pytest.fixture
def own(log: Log) -> Iterator[Serving]:
    with serving(known_model("grouped-query-7")) as served:
        yield served


def _empty_call(serving: Serving, method: str) -> object:
    """Call a method with an empty request."""
    types = pb.DESCRIPTOR.services_by_name["DecoderService"].methods_by_name[method]
    request = getattr(pb, types.input_type.name)()
    call = getattr(serving.stub, method)
    return list(call(request, timeout=20)) if method in STREAMING else call(request, timeout=20)


def _check_scrubbed(told: Failure, log: Log) -> None:
    assert (told.code, told.reason) == (grpc.StatusCode.INTERNAL, "INTERNAL")
    assert SECRET not in repr(told)
    assert "Error" not in told.message
    correlation = told.metadata["correlation_id"]
    assert correlation in told.message
    (line,) = (line for line in log.lines("internal error") if correlation in line["reason"])
    assert line["level"] == "error"
    assert line["exception"]


@pytest.mark.parametrize("error", [RuntimeError(SECRET), SystemExit(SECRET), KeyboardInterrupt(SECRET)])
@pytest.mark.parametrize("method", METHODS)
def test_every_method_is_guarded(
    log: Log, monkeypatch: pytest.MonkeyPatch, method: str, error: BaseException
) -> None:
    def broken(self: object, request: object, context: object) -> object:
        raise error

    monkeypatch.setattr(DecoderService, method, broken)
    with serving(known_model("grouped-query-7")) as served:
        told = failure(lambda: _empty_call(served, method))
        _check_scrubbed(told, log)
        (line,) = log.lines("call")
        assert (line["method"], line["status"]) == (method, "INTERNAL")
        others = [name for name in METHODS if name not in (method, "GetModel")]
        assert isinstance(failure(lambda: _empty_call(served, others[0])), Failure)


def test_a_stream_that_breaks_in_the_middle_is_told(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: object, request: object, context: object) -> Iterator[pb.GenerateResponse]:
        yield pb.GenerateResponse(started=pb.GenerationStarted(session_id="a"))
        raise SystemExit(SECRET)

    monkeypatch.setattr(DecoderService, "Generate", broken)
    with serving(known_model("grouped-query-7")) as served:
        call = streaming(served.stub, pb.GenerateRequest(), timeout=20)
        assert next(call).HasField("started")
        _check_scrubbed(failure(lambda: next(call)), log)


def test_an_engine_that_refuses_strangely(own: Serving, log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = prefill(own.stub, [1]).session_id

    def broken(job: object) -> None:
        raise RuntimeError(SECRET)

    with monkeypatch.context() as patch:
        patch.setattr(own.engine, "submit", broken)
        calls: list[Callable[[], object]] = [
            lambda: decode(own.stub, opened, [2]),
            lambda: generate(own.stub, pb.GenerateRequest(session_id=opened)),
        ]
        for call in calls:
            _check_scrubbed(failure(call), log)
    assert decode(own.stub, opened, [2]).position == 2


def test_an_error_at_the_commit_changes_nothing(
    own: Serving, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    stub = own.stub
    opened, twin = (prefill(stub, [1, 2]).session_id for _ in range(2))
    before, footprint = session(stub, opened), own.footprint

    def broken(self: Append, stop: object) -> None:
        raise RuntimeError(SECRET)

    calls: list[Callable[[], object]] = [
        lambda: prefill(stub, [1]),
        lambda: decode(stub, opened, [2, 3]),
        lambda: generate(stub, pb.GenerateRequest(session_id=opened, max_new_tokens=3)),
        lambda: generate(stub, pb.GenerateRequest(token_ids=ids(1), max_new_tokens=3)),
    ]
    with monkeypatch.context() as patch:
        patch.setattr(Append, "commit", broken)
        for call in calls:
            _check_scrubbed(failure(call), log)
            assert (session(stub, opened), own.footprint) == (before, footprint)
    decoded = decode(stub, opened, [2, 3])
    assert decoded == decode(stub, twin, [2, 3])
    assert rows(decoded.logits)[0] == own.full_rows([1, 2, 2, 3])[-1]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_the_death_of_the_compute_thread_hangs_nobody(
    own: Serving, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead = threading.Event()
    own.engine.on_death = dead.set
    opened = prefill(own.stub, [1]).session_id

    def broken(*_: object) -> None:
        raise SystemExit(SECRET)

    with own.paused():
        monkeypatch.setattr(own.engine, "_planned", broken)
        calls = [
            own.stub.Decode.future(pb.DecodeRequest(session_id=opened, token_ids=ids(2)), timeout=20)
            for _ in range(3)
        ]
        own.wait_for_calls(4)
    for call in calls:
        _check_scrubbed(failure(call.result), log)
    assert dead.wait(10)
    told = failure(lambda: decode(own.stub, opened, [2]))
    assert (told.code, told.reason) == (grpc.StatusCode.UNAVAILABLE, "DRAINING")
    assert (told.retry_seconds, told.pushback) == (1.0, "1000")


def test_methods_that_nobody_has_are_unimplemented(grouped: Serving) -> None:
    call = grouped.channel.unary_unary("/zeroulp.v1.DecoderService/Nothing", None, None)
    with pytest.raises(grpc.RpcError) as caught:
        call(b"")
    assert isinstance(caught.value, grpc.Call)
    assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED
