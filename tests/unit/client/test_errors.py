from __future__ import annotations

import socket

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo, RetryInfo

from unit.client.fake_decoder import FakeDecoder, rich
from zeroulp.client import (
    Client,
    ConnectionFailed,
    FieldViolation,
    ServerFailed,
    ZeroulpError,
    errors,
)
from zeroulp.v1.errors_pb2 import ErrorReason

# The service's table of reasons and statuses, and what a caller is to catch.
TABLE = {
    "EMPTY_PROMPT": (grpc.StatusCode.INVALID_ARGUMENT, errors.InvalidInput),
    "TOKEN_OUT_OF_RANGE": (grpc.StatusCode.INVALID_ARGUMENT, errors.InvalidInput),
    "INVALID_ARGUMENT_VALUE": (grpc.StatusCode.INVALID_ARGUMENT, errors.InvalidInput),
    "CONTEXT_FULL": (grpc.StatusCode.OUT_OF_RANGE, errors.ContextFull),
    "SESSION_UNKNOWN": (grpc.StatusCode.NOT_FOUND, errors.SessionUnknown),
    "SESSION_BUSY": (grpc.StatusCode.ABORTED, errors.SessionBusy),
    "PARAMETERS_CHANGED": (grpc.StatusCode.FAILED_PRECONDITION, errors.ParametersChanged),
    "CACHE_BUDGET": (grpc.StatusCode.RESOURCE_EXHAUSTED, errors.ResourceExhausted),
    "SESSION_LIMIT": (grpc.StatusCode.RESOURCE_EXHAUSTED, errors.ResourceExhausted),
    "QUEUE_FULL": (grpc.StatusCode.RESOURCE_EXHAUSTED, errors.ResourceExhausted),
    "MESSAGE_TOO_LARGE": (grpc.StatusCode.RESOURCE_EXHAUSTED, errors.ResourceExhausted),
    "RELOAD_RUNNING": (grpc.StatusCode.RESOURCE_EXHAUSTED, errors.ResourceExhausted),
    "DRAINING": (grpc.StatusCode.UNAVAILABLE, errors.Unavailable),
    "NON_FINITE": (grpc.StatusCode.DATA_LOSS, errors.NonFinite),
    "CANCELLED": (grpc.StatusCode.CANCELLED, errors.CallCancelled),
    "DEADLINE_EXCEEDED": (grpc.StatusCode.DEADLINE_EXCEEDED, errors.DeadlinePassed),
    "UNAUTHENTICATED": (grpc.StatusCode.UNAUTHENTICATED, errors.Unauthenticated),
    "INTERNAL": (grpc.StatusCode.INTERNAL, errors.ServerFailed),
}


def test_the_table_has_every_reason_of_the_wire() -> None:
    names = {name.removeprefix("ERROR_REASON_") for name in ErrorReason.keys()}  # noqa: SIM118
    assert set(TABLE) == names - {"UNSPECIFIED"}


@pytest.mark.parametrize("reason", TABLE)
def test_every_reason_has_its_exception(decoder: FakeDecoder, client: Client, reason: str) -> None:
    code, kind = TABLE[reason]
    decoder.failures["GetModel"] = rich(code, "words", ErrorInfo(domain="zeroulp", reason=reason))
    with pytest.raises(ZeroulpError) as caught:
        client.model()
    assert type(caught.value) is kind
    assert (caught.value.code, caught.value.reason, str(caught.value)) == (code.name, reason, "words")
    assert caught.value.retry_after_seconds is None


def test_every_detail_is_read(decoder: FakeDecoder, client: Client) -> None:
    decoder.failures["Prefill"] = rich(
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        "the queue is full",
        ErrorInfo(domain="zeroulp", reason="QUEUE_FULL", metadata={"max_queued_calls": "64"}),
        RetryInfo(retry_delay=Duration(seconds=1, nanos=500_000_000)),
        BadRequest(field_violations=[BadRequest.FieldViolation(field="text", description="too much")]),
    )
    with pytest.raises(errors.ResourceExhausted) as caught:
        client.prefill("x")
    assert caught.value.metadata == {"max_queued_calls": "64"}
    assert caught.value.retry_after_seconds == 1.5
    assert caught.value.violations == (FieldViolation("text", "too much"),)
    assert len(decoder.requests) == 1, "nothing is tried again"


def test_a_stream_fails_with_the_same_exceptions(decoder: FakeDecoder, client: Client) -> None:
    status = rich(grpc.StatusCode.DATA_LOSS, "NaN", ErrorInfo(domain="zeroulp", reason="NON_FINITE"))
    decoder.fail_after = (2, status)
    generation = client.generate("x")
    assert len([next(generation), next(generation)]) == 2
    with pytest.raises(errors.NonFinite):
        next(generation)
    with pytest.raises(RuntimeError, match="has not been read to its end"):
        _ = generation.finished


def test_a_stream_refused_at_once_raises_where_it_was_asked_for(decoder: FakeDecoder, client: Client) -> None:
    decoder.failures["Generate"] = rich(grpc.StatusCode.INVALID_ARGUMENT, "empty")
    with pytest.raises(errors.InvalidInput, match="empty"):
        client.generate("")


def test_another_domain_is_not_ours(decoder: FakeDecoder, client: Client) -> None:
    info = ErrorInfo(domain="proxy.example", reason="DRAINING", metadata={"a": "b"})
    decoder.failures["GetModel"] = rich(grpc.StatusCode.UNAVAILABLE, "bad gateway", info)
    with pytest.raises(ConnectionFailed, match="bad gateway") as caught:
        client.model()
    assert (caught.value.reason, caught.value.metadata) == ("", {})


class Misleading(grpc.Status):
    code = grpc.StatusCode.INTERNAL
    details = "words"

    def __init__(self, status_details: bytes) -> None:
        self.trailing_metadata = (("grpc-status-details-bin", status_details),)


@pytest.mark.parametrize("details", [b"\xff\xff\xff", b"\x08\x05"], ids=["noise", "of another code"])
def test_details_that_are_wrong_are_left_out(decoder: FakeDecoder, client: Client, details: bytes) -> None:
    decoder.failures["GetModel"] = Misleading(details)
    with pytest.raises(ServerFailed, match="words"):
        client.model()


def test_no_server_is_a_failed_connection() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, but not listening: nobody answers there
        target = f"127.0.0.1:{taken.getsockname()[1]}"
        with Client(target) as client, pytest.raises(ConnectionFailed, match=target) as caught:
            client.model()
    assert caught.value.code == "UNAVAILABLE"


def test_a_server_of_something_else_is_a_failed_server() -> None:
    from concurrent.futures import ThreadPoolExecutor

    server = grpc.server(ThreadPoolExecutor(1))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        with Client(f"127.0.0.1:{port}") as client, pytest.raises(ServerFailed) as caught:
            client.model()
    finally:
        server.stop(None).wait()
    assert caught.value.code == "UNIMPLEMENTED"


def test_the_drawn_tree_is_the_real_one() -> None:
    drawn = [line.split("── ")[1].split()[0] for line in (errors.__doc__ or "").splitlines() if "── " in line]

    def below(kind: type[ZeroulpError]) -> list[str]:
        return [name for child in kind.__subclasses__() for name in (child.__name__, *below(child))]

    assert sorted(drawn) == sorted(below(ZeroulpError))
