"""The one place where a gRPC status becomes an exception of ours."""

from __future__ import annotations

from collections.abc import Mapping

import grpc
from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2, status_pb2
from grpc_status import rpc_status

from zeroulp.client.errors import (
    CallCancelled,
    ConnectionFailed,
    ContextFull,
    DeadlinePassed,
    FieldViolation,
    InvalidInput,
    NonFinite,
    ParametersChanged,
    ResourceExhausted,
    ServerFailed,
    SessionBusy,
    SessionUnknown,
    Unauthenticated,
    Unavailable,
    ZeroulpError,
)

DOMAIN = "zeroulp"

BY_CODE: Mapping[grpc.StatusCode, type[ZeroulpError]] = {
    grpc.StatusCode.INVALID_ARGUMENT: InvalidInput,
    grpc.StatusCode.OUT_OF_RANGE: ContextFull,
    grpc.StatusCode.NOT_FOUND: SessionUnknown,
    grpc.StatusCode.FAILED_PRECONDITION: ParametersChanged,
    grpc.StatusCode.ABORTED: SessionBusy,
    grpc.StatusCode.RESOURCE_EXHAUSTED: ResourceExhausted,
    grpc.StatusCode.UNAVAILABLE: Unavailable,
    grpc.StatusCode.CANCELLED: CallCancelled,
    grpc.StatusCode.DEADLINE_EXCEEDED: DeadlinePassed,
    grpc.StatusCode.DATA_LOSS: NonFinite,
    grpc.StatusCode.UNAUTHENTICATED: Unauthenticated,
}
"""Every other status is ServerFailed."""


def error_of(failed: grpc.RpcError, target: str) -> ZeroulpError:
    """Return the exception for a call to ``target`` that ended with a status other than OK."""
    code = failed.code()
    message = failed.details() or ""
    info = error_details_pb2.ErrorInfo()
    bad_request = error_details_pb2.BadRequest()
    retry = error_details_pb2.RetryInfo()
    try:
        for detail in _rich_status(failed).details:
            for known in (info, bad_request, retry):
                # Fills the one whose type it has, and leaves the others as they are.
                detail.Unpack(known)
    except (ValueError, DecodeError):
        # Damaged, or of another code than the status' own, as a proxy in between may make them: the
        # status itself still tells what happened.
        pass
    ours = info.domain == DOMAIN
    kind = BY_CODE.get(code, ServerFailed)
    if code is grpc.StatusCode.UNAVAILABLE and not ours:
        # gRPC itself gives this status, without details, to a connection that is not there.
        kind = ConnectionFailed
        message = f"no server answers at {target}: {message}"
    return kind(
        message,
        code=code.name,
        reason=info.reason if ours else "",
        metadata=info.metadata if ours else {},
        violations=tuple(FieldViolation(v.field, v.description) for v in bad_request.field_violations),
        retry_after_seconds=retry.retry_delay.ToTimedelta().total_seconds()
        if retry.HasField("retry_delay")
        else None,
    )


def _rich_status(failed: grpc.RpcError) -> status_pb2.Status:
    """Return the google.rpc.Status that came with the error, an empty one if none did."""
    status: status_pb2.Status | None = rpc_status.from_call(failed) if isinstance(failed, grpc.Call) else None
    return status or status_pb2.Status()
