"""The text side of requests: what a prompt's ids are, and what ids are as text."""

from __future__ import annotations

from collections.abc import Iterable

from zeroulp.model.errors import EmptyPrompt, InvalidArgument
from zeroulp.model.loading import LoadedModel
from zeroulp.model.text import ChatMessage, Tokenizer
from zeroulp.v1 import decoder_pb2 as pb


class Texts:
    """Immutable; runs on the threads of the wire, so that a long text delays no step."""

    def __init__(self, loaded: LoadedModel) -> None:
        self._loaded = loaded

    @property
    def tokenizer(self) -> Tokenizer:
        """The model's tokenizer; raises ``InvalidArgument`` if it has none."""
        if self._loaded.tokenizer is None:
            reason = f" ({self._loaded.text_refused})" if self._loaded.text_refused else ""
            raise InvalidArgument(
                f"the model takes token ids only: it has no usable tokenizer{reason}", field="text"
            )
        return self._loaded.tokenizer

    def prompt(
        self, request: pb.PrefillRequest | pb.GenerateRequest | pb.ScoreSequence | pb.TraceRequest
    ) -> tuple[int, ...]:
        """Return the ids of an input that starts a sequence; raises ``EmptyPrompt`` if there is none."""
        kind = request.WhichOneof("input")
        if kind == "token_ids":
            return tuple(request.token_ids.ids)
        if kind == "text":
            return tuple(self.tokenizer.encode_prompt(request.text))
        if not isinstance(request, pb.PrefillRequest | pb.GenerateRequest):
            raise EmptyPrompt("the request has no input; give token_ids or text", field="input")
        if kind == "chat":
            return self.chat(request.chat)
        raise EmptyPrompt("the request has no input; give token_ids, text or chat", field="input")

    def document(self, sequence: pb.ScoreSequence) -> tuple[int, ...]:
        """Return the ids of a sequence to score: text is taken as a whole document."""
        if sequence.WhichOneof("input") == "text":
            return tuple(self.tokenizer.encode_document(sequence.text))
        return self.prompt(sequence)

    def continuation(
        self, request: pb.DecodeRequest | pb.GenerateRequest | pb.TraceRequest
    ) -> tuple[int, ...]:
        """Return the ids that go on from a session; none if the request has no input."""
        kind = request.WhichOneof("input")
        if kind == "text":
            return tuple(self.tokenizer.encode_plain(request.text))
        if kind == "chat":
            raise InvalidArgument(
                "chat is a whole conversation and opens a session; "
                "to go on from one, tokenize it and send the new ids",
                field="chat",
            )
        return tuple(request.token_ids.ids)

    def chat(self, chat: pb.Chat) -> tuple[int, ...]:
        """Return the ids of a conversation in the model's own template."""
        if self._loaded.chat is None:
            raise InvalidArgument("the model has no chat template", field="chat")
        if not chat.messages:
            raise EmptyPrompt("chat.messages is empty; at least one message is needed", field="chat.messages")
        messages = [ChatMessage(message.role, message.content) for message in chat.messages]
        return tuple(
            self.tokenizer.encode_plain(self._loaded.chat.render(messages, chat.add_generation_prompt))
        )

    def text(self, ids: Iterable[int], skip_control: bool) -> str:
        """Return the text of ids."""
        return self.tokenizer.decode(ids, skip_control=skip_control)
