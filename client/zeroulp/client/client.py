"""The library's entrance: a connection to one daemon."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Unpack

from zeroulp.client.commit import commit_of
from zeroulp.client.generate_request import GenerateOptions, generate_request
from zeroulp.client.generation import Generation
from zeroulp.client.health import is_serving
from zeroulp.client.logits import LogitsScope
from zeroulp.client.model import Model, model_of
from zeroulp.client.prompt import Chat, Prompt, Tokens, chat_message_of, put_prompt
from zeroulp.client.reloaded_model import ReloadedModel, reloaded_model_of
from zeroulp.client.score import Scores, ScoreSequence, score_sequence_message_of, scores_of
from zeroulp.client.session import OpenedSession, Session
from zeroulp.client.trace import Trace, trace_request
from zeroulp.client.wire import Wire
from zeroulp.v1 import admin_pb2, decoder_pb2


class Client:
    """Calls a zeroulp daemon at ``target``, "host:port". Used by any number of threads.

    Every call raises a subclass of ZeroulpError (see ``zeroulp.client.errors``), and ValueError or
    TypeError for arguments that no message can hold. Nothing is tried again silently. The connection
    is made by the first call, and closed, its calls with it, by ``close`` or at the end of ``with``.
    """

    def __init__(self, target: str, *, channel_options: Sequence[tuple[str, object]] = ()) -> None:
        """Make a client; ``channel_options`` are gRPC's own and go before the client's."""
        self._wire = Wire(target, channel_options)

    def model(self) -> Model:
        """Return what the server serves, and the limits it holds requests to."""
        return model_of(self._wire.call(self._wire.stub.GetModel, decoder_pb2.GetModelRequest()))

    def is_serving(self) -> bool:
        """Return whether the server's health is SERVING."""
        return is_serving(self._wire)

    def prefill(
        self, prompt: Prompt, *, logits: LogitsScope = LogitsScope.LAST, top_entries: int = 0
    ) -> OpenedSession:
        """Open a session with a prompt that is not empty."""
        request = decoder_pb2.PrefillRequest(logits_scope=logits.value, top_entries=top_entries)
        put_prompt(request, prompt)
        answer = self._wire.call(self._wire.stub.Prefill, request)
        return OpenedSession(self._wire, answer.session_id, commit_of(answer))

    def session(self, session_id: str) -> Session:
        """Return the session of this id, which is not asked for before it is used."""
        return Session(self._wire, session_id)

    def score(
        self,
        *sequences: ScoreSequence | Tokens,
        logits: LogitsScope = LogitsScope.NONE,
        top_entries: int = 0,
    ) -> Scores:
        """Score sequences by a full forward, without a session; text and ids predict their own next token."""
        request = decoder_pb2.ScoreRequest(
            sequences=[score_sequence_message_of(sequence) for sequence in sequences],
            logits_scope=logits.value,
            top_entries=top_entries,
        )
        return scores_of(self._wire.call(self._wire.stub.Score, request))

    def generate(
        self, prompt: Prompt, *, keep_session: bool = False, **options: Unpack[GenerateOptions]
    ) -> Generation:
        """Open a session with ``prompt`` and draw tokens after it.

        The session is freed at the end, whatever the end, unless ``keep_session``: only then can it
        be continued, or resumed after a broken connection.
        """
        return Generation(self._wire, generate_request(prompt, close_session=not keep_session, **options))

    def trace(
        self,
        tokens: Tokens,
        *,
        cached_prefix: int | None = None,
        names: Sequence[str] = (),
        positions: Sequence[int] = (),
    ) -> Trace:
        """Run one pass over ``tokens``, and read the tensors that it computes on its way.

        A full forward; or, with a ``cached_prefix`` of n, the first n tokens are prefilled and the others
        decoded over that cache, and only these are traced. ``names`` are patterns as for file names, which
        match dots too; ``positions`` ascend. Without them, all tensors and all traced positions come.
        """
        request = trace_request(tokens, cached_prefix=cached_prefix, names=names, positions=positions)
        return Trace(self._wire, request)

    def tokenize(
        self, text: str | Chat, *, whole_document: bool = False, add_generation_prompt: bool = True
    ) -> tuple[int, ...]:
        """Return the ids that a prompt of this text or conversation would have.

        ``whole_document`` adds what closes a document, where the model has such a token;
        ``add_generation_prompt`` ends a conversation with the opening of the assistant's turn.
        """
        request = decoder_pb2.TokenizeRequest(whole_document=whole_document)
        if isinstance(text, str):
            request.text = text
        else:
            request.chat.CopyFrom(chat_message_of(text, add_generation_prompt=add_generation_prompt))
        return tuple(self._wire.call(self._wire.stub.Tokenize, request).token_ids)

    def detokenize(self, token_ids: Sequence[int], *, skip_control: bool = False) -> str:
        """Return the text of ids; ``skip_control`` leaves out tokens such as the end of a document."""
        request = decoder_pb2.DetokenizeRequest(
            token_ids=decoder_pb2.TokenIds(ids=token_ids), skip_control=skip_control
        )
        return self._wire.call(self._wire.stub.Detokenize, request).text

    def reload_model(self, token: str, path: str = "") -> ReloadedModel:
        """Let the server load other weights of the same configuration; needs its admin token.

        ``path`` is on the server's machine, or a model's name; empty is where the present ones came from.
        The token is sent as it is: use it where the connection is private. Raises ValueError for a token
        that no header can carry.
        """
        if not (token.isascii() and token.isprintable()):
            raise ValueError("the token holds characters that cannot be sent; visible ASCII can")
        request = admin_pb2.ReloadModelRequest(path=path)
        metadata = (("authorization", f"Bearer {token}"),)
        return reloaded_model_of(self._wire.call(self._wire.admin.ReloadModel, request, metadata))

    def close(self) -> None:
        """End all calls that are under way, and the connection."""
        self._wire.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
