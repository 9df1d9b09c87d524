"""A call whose answers come as they are made."""

from __future__ import annotations

import weakref
from types import TracebackType
from typing import Generic, Self, TypeVar

import grpc

from zeroulp.client.errors import ProtocolBroken
from zeroulp.client.wire import Stream
from zeroulp.v1 import decoder_pb2

Event = TypeVar("Event", decoder_pb2.GenerateResponse, decoder_pb2.TraceResponse)


class StreamedCall(Generic[Event]):
    """Holds the call until it is cancelled, left or forgotten; the first event must say that it started."""

    def __init__(self, events: Stream[Event], nothing: Event, kind: str) -> None:
        self._events: Stream[Event] = events
        # Not __del__: this also runs at exit, and holds the call without this object.
        self._release: weakref.finalize[..., StreamedCall[Event]] = weakref.finalize(self, events.cancel)
        try:
            self._first: Event = next(events, nothing)
            if self._first.WhichOneof("event") != "started":
                raise broken(f"a {kind} began without its first event")
        except BaseException:
            self.cancel()
            raise

    def cancel(self) -> None:
        """End the call; without effect when it has ended."""
        self._release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.cancel()


def broken(message: str) -> ProtocolBroken:
    """Return the error of a stream that does not follow the contract."""
    return ProtocolBroken(message, code=grpc.StatusCode.INTERNAL.name)
