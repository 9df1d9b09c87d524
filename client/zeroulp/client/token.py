"""One generated token."""

from __future__ import annotations

from dataclasses import dataclass

from zeroulp.client.logits import Logits, logits_of
from zeroulp.client.top_entries import TokenLogProbability, entries_of
from zeroulp.v1 import decoder_pb2


@dataclass(frozen=True, slots=True)
class Token:
    """A committed token; what was not asked for is None or empty."""

    token_id: int
    position: int
    """Where it stands; the session's length is this plus one."""
    text: str
    """What became final with it: whole characters, once; empty while one is incomplete."""
    log_probability: float | None
    """In nats, under the unmodified logits."""
    logits: Logits | None
    """The one row that it was drawn from, which follows the token at ``position`` - 1."""
    top_entries: tuple[TokenLogProbability, ...]
    """The most likely entries of that row."""


def token_of(message: decoder_pb2.GeneratedToken) -> Token:
    """Return what a message holds."""
    return Token(
        token_id=message.token_id,
        position=message.position,
        text=message.text,
        log_probability=message.log_probability if message.HasField("log_probability") else None,
        logits=logits_of(message.logits) if message.HasField("logits") else None,
        top_entries=entries_of(message.top_entries),
    )
