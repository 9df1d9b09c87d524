"""Tokens as they arrive."""

from __future__ import annotations

from collections.abc import Iterator

from zeroulp.client.finished import Finished, finished_of
from zeroulp.client.streamed_call import StreamedCall, broken
from zeroulp.client.token import Token, token_of
from zeroulp.client.wire import Wire
from zeroulp.v1 import decoder_pb2


class Generation(StreamedCall[decoder_pb2.GenerateResponse]):
    """An iterator over the tokens of one generation, which is under way when this exists.

    Reading raises the ZeroulpError that ended the call early. Leaving the ``with`` block, closing
    ``pieces``, ``cancel`` and garbage collection end the call; what was committed by then stays.
    ``cancel`` may be called by any thread, everything else belongs to one.
    """

    def __init__(self, wire: Wire, request: decoder_pb2.GenerateRequest) -> None:
        super().__init__(
            wire.stream(wire.stub.Generate, request), decoder_pb2.GenerateResponse(), "generation"
        )
        self._texts: list[str] = []
        self._finished: Finished | None = None
        self._started: decoder_pb2.GenerationStarted = self._first.started

    @property
    def session_id(self) -> str:
        """The session that grows."""
        return self._started.session_id

    @property
    def prompt_ids(self) -> tuple[int, ...]:
        """The ids that this call's input became; in a session that went on, only those."""
        return tuple(self._started.token_ids)

    @property
    def first_position(self) -> int:
        """The position of the first new token."""
        return self._started.position

    @property
    def seed(self) -> int:
        """The seed of the draws, the server's own if none was given."""
        return self._started.seed

    @property
    def finished(self) -> Finished:
        """The end; raises RuntimeError while tokens are still to be read, or after a broken end."""
        if self._finished is None:
            raise RuntimeError("the generation has not been read to its end")
        return self._finished

    def __iter__(self) -> Iterator[Token]:
        return self

    def __next__(self) -> Token:
        for event in self._events:
            match event.WhichOneof("event"):
                case "token":
                    token = token_of(event.token)
                    self._texts.append(token.text)
                    return token
                case "finished":
                    # Not the end of the call yet: its status follows.
                    self._finished = finished_of(event.finished)
                case _:
                    raise broken("a generation told of its start twice, or of something unknown")
        if self._finished is None:
            raise broken("a generation ended without its last event")
        raise StopIteration

    def pieces(self) -> Iterator[str]:
        """Read to the end, and give the text as it becomes final, the held-back tail included."""
        try:
            for token in self:
                if token.text:
                    yield token.text
            if self.finished.text:
                yield self.finished.text
        finally:
            self.cancel()

    def text(self) -> str:
        """Read to the end, and return the whole generated text, that of tokens read before included."""
        for _ in self:
            pass
        return "".join(self._texts) + self.finished.text
