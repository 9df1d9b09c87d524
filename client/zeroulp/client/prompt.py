"""What a model is given: text, token ids, or a conversation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from zeroulp.v1 import decoder_pb2


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """One turn of a conversation; ``role`` is "system", "user" or "assistant"."""

    role: str
    content: str


Chat = Sequence[ChatMessage]
Tokens = str | Sequence[int]
"""Text, or token ids below the vocabulary size."""
Prompt = Tokens | Chat
"""A conversation is rendered by the model's own template."""


def put_tokens(
    request: decoder_pb2.PrefillRequest
    | decoder_pb2.DecodeRequest
    | decoder_pb2.GenerateRequest
    | decoder_pb2.ScoreSequence
    | decoder_pb2.TraceRequest,
    tokens: Tokens,
) -> None:
    """Write text or ids into a request; raises ValueError for what a message cannot hold."""
    if isinstance(tokens, str):
        request.text = tokens
    else:
        # An empty list is an input too: the server has a name for that error.
        request.token_ids.SetInParent()
        request.token_ids.ids.extend(tokens)


def put_prompt(request: decoder_pb2.PrefillRequest | decoder_pb2.GenerateRequest, prompt: Prompt) -> None:
    """Write a prompt into a request; a conversation asks for the assistant's turn at its end."""
    if isinstance(prompt, str):
        put_tokens(request, prompt)
        return
    turns = [item for item in prompt if isinstance(item, ChatMessage)]
    ids = [item for item in prompt if not isinstance(item, ChatMessage)]
    if turns and ids:
        raise TypeError("a prompt is token ids or messages, not both")
    if turns:
        request.chat.CopyFrom(chat_message_of(turns, add_generation_prompt=True))
    else:
        put_tokens(request, ids)


def chat_message_of(chat: Chat, *, add_generation_prompt: bool) -> decoder_pb2.Chat:
    """Return the message for a conversation."""
    return decoder_pb2.Chat(
        messages=[decoder_pb2.ChatMessage(role=turn.role, content=turn.content) for turn in chat],
        add_generation_prompt=add_generation_prompt,
    )
