"""A conversation that keeps its session for as long as the template lets it grow."""

from __future__ import annotations

from contextlib import suppress

from zeroulp.client.client import Client
from zeroulp.client.errors import SessionUnknown, ZeroulpError
from zeroulp.client.generate_request import GenerateOptions
from zeroulp.client.generation import Generation
from zeroulp.client.prompt import ChatMessage
from zeroulp.client.session import Session


class Conversation:
    """Messages so far, and the session that has most of them. Used by one thread.

    The whole conversation is rendered for every turn. Where the session's tokens are its beginning,
    only the rest is appended; a template that rewrote earlier turns gets a new session.
    """

    def __init__(self, client: Client, system: str | None, options: GenerateOptions) -> None:
        self._client = client
        self._options = options
        self._messages = [] if system is None else [ChatMessage("system", system)]
        self._session: Session | None = None

    def ask(self, content: str) -> Generation:
        """Add a turn of the user's, and start the answer; ``answered`` takes what became of it."""
        self._messages.append(ChatMessage("user", content))
        ids = self._client.tokenize(self._messages, add_generation_prompt=True)
        known = self._known_ids()
        if self._session is not None and ids[: len(known)] == known:
            return self._session.generate(ids[len(known) :], **self._options)
        self.close()
        generation = self._client.generate(ids, keep_session=True, **self._options)
        self._session = self._client.session(generation.session_id)
        return generation

    def answered(self, content: str) -> None:
        """Add the assistant's turn."""
        self._messages.append(ChatMessage("assistant", content))

    def close(self) -> None:
        """Free the session, if there is one."""
        if self._session is not None:
            # An error of the farewell must not hide the one that led to it.
            with suppress(ZeroulpError):
                self._session.close()
            self._session = None

    def _known_ids(self) -> tuple[int, ...]:
        """Return the session's own tokens: after an answer broken off only the server knows them."""
        if self._session is None:
            return ()
        try:
            return self._session.state().token_ids
        except SessionUnknown:
            # As the contract says: open one again, and the continuation is the same bits.
            self._session = None
            return ()
