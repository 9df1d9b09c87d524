"""Short forms of calls, and what a failed one told."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import grpc
import pytest
from google.rpc import error_details_pb2
from grpc_status import rpc_status

from zeroulp.v1 import decoder_pb2 as pb
from zeroulp.v1.decoder_pb2_grpc import DecoderServiceStub

GREEDY = pb.SamplingParameters(temperature=0.0)


def ids(*tokens: int) -> pb.TokenIds:
    return pb.TokenIds(ids=tokens)


def rows(logits: pb.Logits) -> list[bytes]:
    """Return each row's bytes; fails when the message contradicts itself."""
    width, values = logits.vocabulary_size * 8, logits.values  # each look at the field copies it
    assert len(values) == logits.rows * width
    return [values[start : start + width] for start in range(0, len(values), width)]


def prefill(
    stub: DecoderServiceStub,
    tokens: Sequence[int],
    scope: pb.LogitsScope.ValueType = pb.LOGITS_SCOPE_UNSPECIFIED,
) -> pb.PrefillResponse:
    return stub.Prefill(pb.PrefillRequest(token_ids=ids(*tokens), logits_scope=scope))


def decode(
    stub: DecoderServiceStub,
    session_id: str,
    tokens: Sequence[int],
    scope: pb.LogitsScope.ValueType = pb.LOGITS_SCOPE_UNSPECIFIED,
) -> pb.DecodeResponse:
    return stub.Decode(pb.DecodeRequest(session_id=session_id, token_ids=ids(*tokens), logits_scope=scope))


def score_rows(stub: DecoderServiceStub, tokens: Sequence[int]) -> list[bytes]:
    """Return every row of logits that Score gives for one sequence."""
    request = pb.ScoreRequest(
        sequences=[pb.ScoreSequence(token_ids=ids(*tokens))], logits_scope=pb.LOGITS_SCOPE_ALL
    )
    return rows(stub.Score(request).scores[0].logits)


def session(stub: DecoderServiceStub, session_id: str) -> pb.GetSessionResponse:
    return stub.GetSession(pb.GetSessionRequest(session_id=session_id))


def close(stub: DecoderServiceStub, session_id: str) -> pb.CloseSessionResponse:
    return stub.CloseSession(pb.CloseSessionRequest(session_id=session_id))


def streaming(stub: DecoderServiceStub, request: pb.GenerateRequest, **options: Any) -> Any:
    """Start a generation and return the call: an iterator of events that can be cancelled.

    The stubs know it as one or the other.
    """
    return stub.Generate(request, **options)


def hang_up(call: Any) -> None:
    """Cancel a call; the stubs leave the method's result open."""
    call.cancel()


@dataclass(frozen=True)
class Stream:
    """A generation that was read to its end."""

    started: pb.GenerationStarted
    tokens: list[pb.GeneratedToken]
    finished: pb.GenerationFinished

    @property
    def ids(self) -> list[int]:
        return [token.token_id for token in self.tokens]

    @property
    def text(self) -> str:
        return "".join(token.text for token in self.tokens) + self.finished.text

    @property
    def reason(self) -> str:
        return pb.FinishReason.Name(self.finished.reason).removeprefix("FINISH_REASON_")


def generate(stub: DecoderServiceStub, request: pb.GenerateRequest) -> Stream:
    """Read a whole generation; fails when its events come in another order than the contract's."""
    events = list(stub.Generate(request))
    kinds = [event.WhichOneof("event") for event in events]
    assert kinds == ["started", *["token"] * (len(events) - 2), "finished"]
    tokens = [event.token for event in events[1:-1]]
    return Stream(events[0].started, tokens, events[-1].finished)


@dataclass(frozen=True)
class Failure:
    """A status with its details."""

    code: grpc.StatusCode
    reason: str
    message: str
    metadata: dict[str, str]
    fields: list[str]
    retry_seconds: float | None
    pushback: str | None


def failure(call: Callable[[], object]) -> Failure:
    """Return how a call failed; fails if it did not, or without the contract's details."""
    with pytest.raises(grpc.RpcError) as caught:
        call()
    return failure_of(caught.value)


def failure_of(error: grpc.RpcError) -> Failure:
    assert isinstance(error, grpc.Call)
    status = rpc_status.from_call(error)
    assert status is not None, f"{error.code()} without details: {error.details()}"
    info, bad, retry = (
        error_details_pb2.ErrorInfo(),
        error_details_pb2.BadRequest(),
        error_details_pb2.RetryInfo(),
    )
    for detail in status.details:
        assert any(detail.Unpack(known) for known in (info, bad, retry))
    assert info.domain == "zeroulp"
    assert status.message == error.details()
    trailers = dict(error.trailing_metadata())
    pushback = trailers.get("grpc-retry-pushback-ms")
    assert not isinstance(pushback, bytes)
    return Failure(
        error.code(),
        info.reason,
        status.message,
        dict(info.metadata),
        [violation.field for violation in bad.field_violations],
        retry.retry_delay.seconds + retry.retry_delay.nanos / 1e9 if retry.HasField("retry_delay") else None,
        pushback,
    )
