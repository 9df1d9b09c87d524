"""What a call on a session has committed, and what a session holds."""

from __future__ import annotations

from dataclasses import dataclass

from zeroulp.client.logits import Logits, logits_of
from zeroulp.client.top_entries import TopEntries, top_entries_of
from zeroulp.client.work import Work, work_of
from zeroulp.v1 import decoder_pb2


@dataclass(frozen=True, slots=True)
class Commit:
    """The outcome of a Prefill or a Decode."""

    position: int
    """Committed tokens of the session."""
    token_ids: tuple[int, ...]
    """The ids that the call's input became."""
    logits: Logits | None
    top_entries: tuple[TopEntries, ...]
    work: Work
    total_work: Work


@dataclass(frozen=True, slots=True)
class SessionState:
    """A session as it stands."""

    session_id: str
    position: int
    """Committed tokens."""
    token_ids: tuple[int, ...]
    """All of them, (position,)."""
    total_work: Work
    cache_bytes: int
    """Of the cache blocks that the session holds, those included that others hold too."""


@dataclass(frozen=True, slots=True)
class Truncation:
    """What a session has after it was rolled back."""

    position: int
    """The tokens that stayed."""
    total_work: Work
    """What was computed for the dropped tokens stays counted."""
    cache_bytes: int


@dataclass(frozen=True, slots=True)
class SessionEnd:
    """What a session had when it was closed."""

    position: int
    total_work: Work


def commit_of(message: decoder_pb2.PrefillResponse | decoder_pb2.DecodeResponse) -> Commit:
    """Return what an answer holds."""
    return Commit(
        position=message.position,
        token_ids=tuple(message.token_ids),
        logits=logits_of(message.logits) if message.HasField("logits") else None,
        top_entries=top_entries_of(message.top_entries),
        work=work_of(message.work),
        total_work=work_of(message.total_work),
    )


def state_of(message: decoder_pb2.GetSessionResponse) -> SessionState:
    """Return what an answer holds."""
    return SessionState(
        session_id=message.session_id,
        position=message.position,
        token_ids=tuple(message.token_ids),
        total_work=work_of(message.total_work),
        cache_bytes=message.cache_bytes,
    )
