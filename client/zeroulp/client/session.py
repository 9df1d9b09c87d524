"""One session of the server: a token sequence that grows."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType
from typing import Self, Unpack

from zeroulp.client.audit import Audit, audit_of
from zeroulp.client.commit import Commit, SessionEnd, SessionState, Truncation, commit_of, state_of
from zeroulp.client.errors import SessionUnknown, ZeroulpError
from zeroulp.client.generate_request import GenerateOptions, generate_request
from zeroulp.client.generation import Generation
from zeroulp.client.logits import LogitsScope
from zeroulp.client.prompt import Prompt, Tokens, put_tokens
from zeroulp.client.trace import Trace, trace_request
from zeroulp.client.wire import Wire
from zeroulp.client.work import work_of
from zeroulp.v1 import decoder_pb2


class Session:
    """A session by its id; leaving the ``with`` block closes it.

    Every call raises SessionUnknown when the server has it no more: open one again with the same
    tokens, and the continuation is the same bits. The server runs calls on one session one by one.
    """

    def __init__(self, wire: Wire, session_id: str) -> None:
        self._wire = wire
        self._session_id = session_id

    @property
    def session_id(self) -> str:
        """The server's name for it, which is not to be guessed."""
        return self._session_id

    def decode(
        self, tokens: Tokens, *, logits: LogitsScope = LogitsScope.LAST, top_entries: int = 0
    ) -> Commit:
        """Append one or more tokens, all of them or, when it raises, none."""
        request = decoder_pb2.DecodeRequest(
            session_id=self._session_id, logits_scope=logits.value, top_entries=top_entries
        )
        put_tokens(request, tokens)
        return commit_of(self._wire.call(self._wire.stub.Decode, request))

    def generate(self, prompt: Prompt | None = None, **options: Unpack[GenerateOptions]) -> Generation:
        """Append ``prompt``, if any, and start drawing tokens after it."""
        return Generation(self._wire, generate_request(prompt, session_id=self._session_id, **options))

    def resume(self, position: int) -> Generation:
        """Take a broken generation up: its tokens from ``position`` come again, then the others."""
        request = decoder_pb2.GenerateRequest(session_id=self._session_id, resume_position=position)
        return Generation(self._wire, request)

    def trace(self, tokens: Tokens, *, names: Sequence[str] = (), positions: Sequence[int] = ()) -> Trace:
        """Read the tensors of decoding ``tokens`` in this session, which stays as it is."""
        request = trace_request(tokens, session_id=self._session_id, names=names, positions=positions)
        return Trace(self._wire, request)

    def state(self) -> SessionState:
        """Return the session's tokens, work and bytes."""
        request = decoder_pb2.GetSessionRequest(session_id=self._session_id)
        return state_of(self._wire.call(self._wire.stub.GetSession, request))

    def fork(self) -> Session:
        """Open a session with the same tokens, which goes its own way from here.

        Nothing is computed or copied: both hold the same cache blocks until one of them writes. Raises
        ResourceExhausted when no more sessions may be open.
        """
        request = decoder_pb2.ForkSessionRequest(session_id=self._session_id)
        return Session(self._wire, self._wire.call(self._wire.stub.ForkSession, request).session_id)

    def truncate(self, position: int) -> Truncation:
        """Roll back to the first ``position`` tokens, as if the later ones had never been committed.

        Raises InvalidInput unless ``position`` is from 1 up to the session's own. A generation that was
        broken off can be resumed no more.
        """
        request = decoder_pb2.TruncateSessionRequest(session_id=self._session_id, position=position)
        answer = self._wire.call(self._wire.stub.TruncateSession, request)
        return Truncation(answer.position, work_of(answer.total_work), answer.cache_bytes)

    def audit(self) -> Audit:
        """Have the server compute the session's tokens again, and compare every cached row bit by bit.

        Raises ParametersChanged when the server's parameters have changed since.
        """
        request = decoder_pb2.AuditSessionRequest(session_id=self._session_id)
        return audit_of(self._wire.call(self._wire.stub.AuditSession, request))

    def close(self) -> SessionEnd:
        """Free the session."""
        request = decoder_pb2.CloseSessionRequest(session_id=self._session_id)
        answer = self._wire.call(self._wire.stub.CloseSession, request)
        return SessionEnd(answer.position, work_of(answer.total_work))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        # One that is gone is what was wanted; and an error of the block must not be hidden by one of the end.
        with suppress(SessionUnknown if error is None else ZeroulpError):
            self.close()


class OpenedSession(Session):
    """A session that a Prefill of ours has opened, with what that returned."""

    def __init__(self, wire: Wire, session_id: str, prefilled: Commit) -> None:
        super().__init__(wire, session_id)
        self._prefilled = prefilled

    @property
    def prefilled(self) -> Commit:
        """The prompt's ids, the logits after it, and its work."""
        return self._prefilled
