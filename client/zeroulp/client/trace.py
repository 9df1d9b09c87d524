"""The named activations of one pass, as they arrive."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from zeroulp.client.prompt import Tokens, put_tokens
from zeroulp.client.streamed_call import StreamedCall, broken
from zeroulp.client.trace_tensor import VALUE_BYTES, TraceTensor
from zeroulp.client.wire import Wire
from zeroulp.client.work import Work, work_of
from zeroulp.v1 import decoder_pb2


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """A tensor that a trace brings."""

    name: str
    shape: tuple[int, int]
    """Positions, features."""


class Trace(StreamedCall[decoder_pb2.TraceResponse]):
    """An iterator over the tensors of one pass, in the order in which they were computed.

    The pass is over when this exists, and no session was changed by it. Reading raises the ZeroulpError
    that ended the call early. Leaving the ``with`` block, ``cancel`` and garbage collection end the call.
    ``cancel`` may be called by any thread, everything else belongs to one.
    """

    def __init__(self, wire: Wire, request: decoder_pb2.TraceRequest) -> None:
        super().__init__(wire.stream(wire.stub.Trace, request), decoder_pb2.TraceResponse(), "trace")
        self._work: Work | None = None
        self._started: decoder_pb2.TraceStarted = self._first.started
        try:
            self._tensors = tuple(_info_of(tensor) for tensor in self._started.tensors)
        except BaseException:
            self.cancel()
            raise
        self._left = iter(self._tensors)

    @property
    def token_ids(self) -> tuple[int, ...]:
        """The ids that the input became."""
        return tuple(self._started.token_ids)

    @property
    def first_position(self) -> int:
        """Where the first of them stands: 0, or the session's length."""
        return self._started.first_position

    @property
    def positions(self) -> tuple[int, ...]:
        """The positions of every tensor's rows, ascending."""
        return tuple(self._started.positions)

    @property
    def model_name(self) -> str:
        """The model that was traced."""
        return self._started.model_name

    @property
    def parameters_digest(self) -> str:
        """SHA-256 over its parameters."""
        return self._started.parameters_digest

    @property
    def arithmetic_version(self) -> int:
        """The version of the arithmetic's definition."""
        return self._started.arithmetic_version

    @property
    def tensors(self) -> tuple[TensorInfo, ...]:
        """What the trace brings, in order."""
        return self._tensors

    @property
    def work(self) -> Work:
        """What the pass cost; raises RuntimeError while tensors are still to be read."""
        if self._work is None:
            raise RuntimeError("the trace has not been read to its end")
        return self._work

    def __iter__(self) -> Iterator[TraceTensor]:
        return self

    def __next__(self) -> TraceTensor:
        info = next(self._left, None)
        if info is not None:
            return self._read(info)
        for event in self._events:
            if event.WhichOneof("event") != "finished" or self._work is not None:
                raise broken("a trace went on after its last tensor")
            # Not the end of the call yet: its status follows.
            self._work = work_of(event.finished.work)
        if self._work is None:
            raise broken("a trace ended without its last event")
        raise StopIteration

    def _read(self, info: TensorInfo) -> TraceTensor:
        """Put the parts of one tensor together."""
        rows, features = info.shape
        values = bytearray()
        while len(values) < rows * features * VALUE_BYTES:
            event = next(self._events, decoder_pb2.TraceResponse())
            part = event.part
            fits = (
                part.name == info.name
                and part.type == decoder_pb2.TENSOR_TYPE_F64
                and part.first_row * features * VALUE_BYTES == len(values)
                and len(part.values) == len(part.positions) * features * VALUE_BYTES > 0
            )
            if not fits:
                raise broken(f"a trace broke off within {info.name}, or brought something else")
            values += part.values
        return TraceTensor(info.name, info.shape, self.positions, bytes(values))


def trace_request(
    tokens: Tokens,
    *,
    cached_prefix: int | None = None,
    session_id: str | None = None,
    names: Sequence[str] = (),
    positions: Sequence[int] = (),
) -> decoder_pb2.TraceRequest:
    """Return the request; raises ValueError or TypeError for what a message cannot hold."""
    if isinstance(names, str):
        # A string is a sequence of strings too, and each of its characters would be a pattern.
        raise TypeError("names is a sequence of patterns")
    request = decoder_pb2.TraceRequest(names=names, positions=positions)
    if cached_prefix is not None:
        request.prefix_tokens = cached_prefix
    if session_id is not None:
        request.session_id = session_id
    put_tokens(request, tokens)
    return request


def _info_of(message: decoder_pb2.TensorInfo) -> TensorInfo:
    if message.type != decoder_pb2.TENSOR_TYPE_F64 or len(message.shape) != 2:
        raise broken(f"a trace announced {message.name} of a type or shape that is not known")
    return TensorInfo(message.name, (message.shape[0], message.shape[1]))
