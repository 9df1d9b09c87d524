"""The most likely vocabulary entries after a position."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from zeroulp.v1 import decoder_pb2


@dataclass(frozen=True, slots=True)
class TokenLogProbability:
    """One vocabulary entry; the log-probability is in nats."""

    token_id: int
    log_probability: float


@dataclass(frozen=True, slots=True)
class TopEntries:
    """The most likely entries after ``position``: descending, the lower id first among equals."""

    position: int
    entries: tuple[TokenLogProbability, ...]


def entries_of(messages: Iterable[decoder_pb2.TokenLogProbability]) -> tuple[TokenLogProbability, ...]:
    """Return what messages hold, in their order."""
    return tuple(TokenLogProbability(entry.token_id, entry.log_probability) for entry in messages)


def top_entries_of(messages: Iterable[decoder_pb2.TopEntries]) -> tuple[TopEntries, ...]:
    """Return what messages hold, in their order."""
    return tuple(TopEntries(top.position, entries_of(top.entries)) for top in messages)
