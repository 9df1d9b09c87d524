"""Calls and their outcomes as plain values: what the wire side and the engine exchange."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from zeroulp.model.kernels.arrays import F64
from zeroulp.model.sampling import SamplingParameters
from zeroulp.model.work import Work


class Scope(enum.Enum):
    """Which rows of logits an answer carries."""

    NONE = "none"
    LAST = "last"
    ALL = "all"


@dataclass(frozen=True, slots=True)
class Wanted:
    """What an answer carries beside the position."""

    scope: Scope
    top_entries: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class LogitRows:
    """Logits ``[rows, V]``; row r follows the token at ``first_position + r``."""

    first_position: int
    values: F64


Entries = tuple[tuple[int, float], ...]
"""Pairs of token id and log-probability, the most likely first."""


@dataclass(frozen=True, slots=True)
class TopAt:
    """The most likely entries after one position."""

    position: int
    entries: Entries


@dataclass(frozen=True, slots=True)
class Appended:
    """Outcome of Prefill and Decode."""

    session_id: str
    position: int
    ids: tuple[int, ...]
    logits: LogitRows | None
    top: tuple[TopAt, ...]
    work: Work
    total_work: Work


@dataclass(frozen=True, slots=True)
class ScoreSequence:
    """Ids to score: one document, or several packed one after the other, none of which sees another."""

    ids: tuple[int, ...]
    targets: tuple[int, ...] | None = None
    """One for each id; None: each id's successor, which a document's last has none of."""
    mask: tuple[bool, ...] = ()
    """One for each target; empty: all count."""
    document_lengths: tuple[int, ...] = ()
    """Ids of each document; empty: one of all."""


@dataclass(frozen=True, slots=True)
class ScoredToken:
    """One target: its log-probability, whether it is the greedy choice, whether it counts."""

    target: int
    log_probability: float
    greedy: bool
    counted: bool


@dataclass(frozen=True, slots=True)
class SequenceScore:
    """Outcome of one scored sequence; ``mean_nll`` is None when no target counts."""

    ids: tuple[int, ...]
    tokens: tuple[ScoredToken, ...]
    sum_log_probability: float
    mean_nll: float | None
    logits: LogitRows | None
    top: tuple[TopAt, ...]
    work: Work


@dataclass(frozen=True, slots=True)
class GenerateCall:
    """A generation: on a session, or from a prompt that opens one."""

    session_id: str | None
    ids: tuple[int, ...]
    max_new_tokens: int | None
    sampling: SamplingParameters
    seed: int
    stop: tuple[str, ...] = ()
    ignore_end_tokens: bool = False
    wanted: Wanted = Wanted(Scope.NONE)
    log_probabilities: bool = False
    close_session: bool = False


class FinishReason(enum.Enum):
    """Why a generation ended."""

    LENGTH = "length"
    END_TOKEN = "end_token"
    STOP_STRING = "stop_string"
    CONTEXT_FULL = "context_full"


@dataclass(frozen=True, slots=True)
class Started:
    """First event of a generation; ``position`` is the first new token's."""

    session_id: str
    ids: tuple[int, ...]
    position: int
    seed: int


@dataclass(frozen=True, slots=True, eq=False)
class Generated:
    """One committed token and the text that became final with it."""

    token: int
    position: int
    text: str
    log_probability: float | None
    logits: F64 | None
    top: Entries


@dataclass(frozen=True, slots=True)
class Finished:
    """Last event of a generation."""

    reason: FinishReason
    text: str
    position: int
    generated: int
    stop: str | None
    work: Work
    total_work: Work


GenerationEvent = Started | Generated | Finished


@dataclass(frozen=True, slots=True)
class SessionState:
    """Outcome of the calls on a session as a whole: a fork's is the new session's."""

    session_id: str
    position: int
    ids: tuple[int, ...]
    total_work: Work
    cache_bytes: int
