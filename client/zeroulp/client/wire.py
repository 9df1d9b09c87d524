"""A channel to one daemon, and calls on it that fail with our exceptions only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Generic, TypeVar

import grpc

from zeroulp.client.status import error_of
from zeroulp.v1 import admin_pb2_grpc, decoder_pb2_grpc

Request = TypeVar("Request")
Answer = TypeVar("Answer")

CHANNEL_OPTIONS: Mapping[str, object] = {
    # Rows of logits exceed gRPC's 4 MiB soon; the server's own limits (GetModel) are what holds.
    "grpc.max_receive_message_length": -1,
    "grpc.max_send_message_length": -1,
    # The caller decides about a second attempt.
    "grpc.enable_retries": 0,
    # A daemon's address is dialled as it stands, whatever the environment proxies the web through.
    "grpc.enable_http_proxy": 0,
    # A peer that vanished without a goodbye ends its calls. The daemon allows a ping every 10 s.
    "grpc.keepalive_time_ms": 20_000,
    "grpc.keepalive_timeout_ms": 20_000,
}


class Stream(Generic[Answer]):
    """The answers of one streaming call. ``cancel`` may be called by any thread, the rest by one."""

    def __init__(self, call: grpc.CallIterator[Answer], target: str) -> None:
        self._call = call
        self._answers = iter(call)
        self._target = target

    def __iter__(self) -> Iterator[Answer]:
        return self

    def __next__(self) -> Answer:
        try:
            return next(self._answers)
        except grpc.RpcError as failed:
            raise error_of(failed, self._target) from failed

    def cancel(self) -> None:
        """Give the call up; without effect on one that has ended."""
        self._call.cancel()  # type: ignore[no-untyped-call]  # grpc-stubs leave its result open


class Wire:
    """One channel, its stubs, and the target's name. Used by any number of threads."""

    def __init__(self, target: str, channel_options: Sequence[tuple[str, object]]) -> None:
        self.target = target
        self.channel = grpc.insecure_channel(
            target, options=tuple({**CHANNEL_OPTIONS, **dict(channel_options)}.items())
        )
        self.stub = decoder_pb2_grpc.DecoderServiceStub(self.channel)
        self.admin = admin_pb2_grpc.AdminServiceStub(self.channel)

    def call(
        self,
        method: grpc.UnaryUnaryMultiCallable[Request, Answer],
        request: Request,
        metadata: tuple[tuple[str, str], ...] = (),
    ) -> Answer:
        """Return the one answer; raises the subclass of ZeroulpError that the status stands for."""
        try:
            return method(request, metadata=metadata)
        except grpc.RpcError as failed:
            raise error_of(failed, self.target) from failed

    def stream(
        self, method: grpc.UnaryStreamMultiCallable[Request, Answer], request: Request
    ) -> Stream[Answer]:
        """Start a call of many answers, which raise as ``call`` does."""
        return Stream(method(request), self.target)

    def close(self) -> None:
        """End all calls that are under way, and the connection."""
        self.channel.close()
