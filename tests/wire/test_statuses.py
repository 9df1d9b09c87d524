"""The closed list of reasons: the exception tree, the proto and the statuses name the same ones."""

from __future__ import annotations

from collections.abc import Iterator

import grpc
import pytest
from google.rpc import error_details_pb2, status_pb2

from zeroulp.client.status import BY_CODE
from zeroulp.model.errors import CallError, NonFinite
from zeroulp.server.wire.statuses import STATUSES, status_of
from zeroulp.v1 import errors_pb2

PREFIX = "ERROR_REASON_"
IN_PROTO = {name.removeprefix(PREFIX) for name in errors_pb2.ErrorReason.keys()} - {"UNSPECIFIED"}  # noqa: SIM118 - no Mapping


def _tree(kind: type[CallError]) -> Iterator[type[CallError]]:
    yield kind
    for child in kind.__subclasses__():
        yield from _tree(child)


CONCRETE = [kind for kind in _tree(CallError) if hasattr(kind, "reason")]


def _made(kind: type[CallError]) -> CallError:
    return NonFinite(1, "query", 0) if kind is NonFinite else kind("what", field="a.b", number=3)


def test_the_proto_the_statuses_and_the_tree_have_the_same_reasons() -> None:
    assert set(STATUSES) == IN_PROTO
    assert {kind.reason for kind in CONCRETE} == IN_PROTO - {"INTERNAL"}


def test_every_leaf_of_the_tree_has_a_reason_of_its_own() -> None:
    leaves = [kind for kind in _tree(CallError) if not kind.__subclasses__()]
    assert all("reason" in vars(kind) for kind in leaves)
    assert len({kind.reason for kind in leaves}) == len(leaves)


@pytest.mark.parametrize("kind", CONCRETE, ids=lambda kind: kind.__name__)
def test_a_status_carries_all_that_is_known(kind: type[CallError]) -> None:
    error = _made(kind)
    status, reason = status_of(error)
    assert reason == kind.reason
    assert (status.code, status.details) == (STATUSES[reason], error.message)
    trailers = dict(status.trailing_metadata or ())
    packed = trailers["grpc-status-details-bin"]
    assert isinstance(packed, bytes)
    rich = status_pb2.Status.FromString(packed)
    assert (rich.code, rich.message) == (status.code.value[0], error.message)
    info, bad, retry = (
        error_details_pb2.ErrorInfo(),
        error_details_pb2.BadRequest(),
        error_details_pb2.RetryInfo(),
    )
    found = {type(known) for detail in rich.details for known in (info, bad, retry) if detail.Unpack(known)}
    assert (info.domain, info.reason, dict(info.metadata)) == ("zeroulp", reason, dict(error.metadata))
    assert [(v.field, v.description) for v in bad.field_violations] == [
        (violation.field, violation.description) for violation in error.violations
    ]
    worth_a_retry = status.code in (grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.UNAVAILABLE)
    again = worth_a_retry and reason != "MESSAGE_TOO_LARGE"
    assert (error_details_pb2.RetryInfo in found) == again
    assert ("grpc-retry-pushback-ms" in trailers) == worth_a_retry
    if worth_a_retry:
        assert trailers["grpc-retry-pushback-ms"] == ("1000" if again else "-1")


@pytest.mark.parametrize("reason", sorted(IN_PROTO - {"INTERNAL"}))
def test_the_client_has_an_exception_for_every_status(reason: str) -> None:
    assert STATUSES[reason] in BY_CODE


@pytest.mark.parametrize(
    "error", [RuntimeError("/secret/path"), SystemExit(3), KeyboardInterrupt(), MemoryError("/secret/path")]
)
def test_an_error_that_nobody_planned_is_scrubbed(error: BaseException) -> None:
    status, reason = status_of(error)
    assert status.code is grpc.StatusCode.INTERNAL
    told = repr((status.details, status.trailing_metadata))
    assert "secret" not in told
    assert type(error).__name__ not in told
    correlation = reason.removeprefix("INTERNAL ")
    assert correlation in status.details
    assert status_of(error)[1] != reason
