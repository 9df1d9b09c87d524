"""From an exception to what a client sees: the one place where reasons get statuses."""

from __future__ import annotations

import secrets
from collections.abc import Sequence

import grpc
from google.protobuf import any_pb2, duration_pb2
from google.protobuf.message import Message
from google.rpc import error_details_pb2, status_pb2
from grpc_status import rpc_status

from zeroulp.model.errors import CallError

DOMAIN = "zeroulp"
RETRY_SECONDS = 1.0
"""Hint that goes with statuses that are worth a retry: a step of a large model takes tenths of it."""

STATUSES = {
    "EMPTY_PROMPT": grpc.StatusCode.INVALID_ARGUMENT,
    "TOKEN_OUT_OF_RANGE": grpc.StatusCode.INVALID_ARGUMENT,
    "INVALID_ARGUMENT_VALUE": grpc.StatusCode.INVALID_ARGUMENT,
    "CONTEXT_FULL": grpc.StatusCode.OUT_OF_RANGE,
    "SESSION_UNKNOWN": grpc.StatusCode.NOT_FOUND,
    "SESSION_BUSY": grpc.StatusCode.ABORTED,
    "PARAMETERS_CHANGED": grpc.StatusCode.FAILED_PRECONDITION,
    "CACHE_BUDGET": grpc.StatusCode.RESOURCE_EXHAUSTED,
    "SESSION_LIMIT": grpc.StatusCode.RESOURCE_EXHAUSTED,
    "QUEUE_FULL": grpc.StatusCode.RESOURCE_EXHAUSTED,
    "RELOAD_RUNNING": grpc.StatusCode.RESOURCE_EXHAUSTED,
    "MESSAGE_TOO_LARGE": grpc.StatusCode.RESOURCE_EXHAUSTED,
    "DRAINING": grpc.StatusCode.UNAVAILABLE,
    "NON_FINITE": grpc.StatusCode.DATA_LOSS,
    "CANCELLED": grpc.StatusCode.CANCELLED,
    "DEADLINE_EXCEEDED": grpc.StatusCode.DEADLINE_EXCEEDED,
    "UNAUTHENTICATED": grpc.StatusCode.UNAUTHENTICATED,
    "INTERNAL": grpc.StatusCode.INTERNAL,
}
_RETRIED = (grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.UNAVAILABLE)


class _Status(grpc.Status):
    """A status with its trailers; grpc's own class is only an interface."""

    def __init__(
        self, code: grpc.StatusCode, details: str, trailers: Sequence[tuple[str, str | bytes]]
    ) -> None:
        self.code = code
        self.details = details
        self.trailing_metadata = tuple(trailers)


def status_of(error: BaseException) -> tuple[grpc.Status, str]:
    """Return the status for a client, and its reason; an unplanned error is told by a number only."""
    if isinstance(error, CallError):
        return _status(error.reason, error.message, dict(error.metadata), error), error.reason
    correlation = secrets.token_hex(8)
    message = f"an internal error; the server's log tells more under {correlation}"
    return _status("INTERNAL", message, {"correlation_id": correlation}, None), f"INTERNAL {correlation}"


def _status(reason: str, message: str, metadata: dict[str, str], error: CallError | None) -> grpc.Status:
    code = STATUSES[reason]
    details: list[Message] = [error_details_pb2.ErrorInfo(reason=reason, domain=DOMAIN, metadata=metadata)]
    if error is not None and error.violations:
        details.append(_bad_request(error))
    # A message that is too large stays too large: the trailer says not to retry.
    again = code in _RETRIED and reason != "MESSAGE_TOO_LARGE"
    if again:
        whole, part = divmod(RETRY_SECONDS, 1)
        delay = duration_pb2.Duration(seconds=int(whole), nanos=int(part * 1e9))
        details.append(error_details_pb2.RetryInfo(retry_delay=delay))
    rich = status_pb2.Status(code=code.value[0], message=message, details=[_packed(d) for d in details])
    status = rpc_status.to_status(rich)
    trailers = list(status.trailing_metadata)
    if code in _RETRIED:
        trailers.append(("grpc-retry-pushback-ms", str(int(RETRY_SECONDS * 1000)) if again else "-1"))
    return _Status(code, message, trailers)


def _bad_request(error: CallError) -> error_details_pb2.BadRequest:
    violations = [
        error_details_pb2.BadRequest.FieldViolation(field=v.field, description=v.description)
        for v in error.violations
    ]
    return error_details_pb2.BadRequest(field_violations=violations)


def _packed(message: Message) -> any_pb2.Any:
    packed = any_pb2.Any()
    packed.Pack(message)
    return packed
