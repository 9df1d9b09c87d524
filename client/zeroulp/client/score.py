"""Given sequences, and how likely the model finds them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from zeroulp.client.logits import Logits, logits_of
from zeroulp.client.prompt import Tokens, put_tokens
from zeroulp.client.top_entries import TopEntries, top_entries_of
from zeroulp.client.work import Work, work_of
from zeroulp.v1 import decoder_pb2


@dataclass(frozen=True, slots=True)
class ScoreSequence:
    """One sequence to score."""

    tokens: Tokens
    targets: Sequence[int] | None = None
    """What each position should predict, one per input token; None: the document's next token."""
    target_mask: Sequence[bool] = ()
    """One per target; false leaves it out of the sum and the mean; empty means all true."""
    document_lengths: Sequence[int] = ()
    """Tokens of each document, where several are packed into the sequence; empty: it is one document.
    None sees another, and each gets the numbers that it gets alone."""


@dataclass(frozen=True, slots=True)
class ScoredToken:
    """What one target got."""

    target_id: int
    log_probability: float
    """In nats."""
    greedy: bool
    """Whether it is the greedy choice: the lowest id among equal maxima."""
    counted: bool
    """Whether the mask keeps it in the sum and the mean."""


@dataclass(frozen=True, slots=True)
class SequenceScore:
    """What one sequence got."""

    token_ids: tuple[int, ...]
    """The ids that the input became."""
    tokens: tuple[ScoredToken, ...]
    """One per target, in the order of positions."""
    sum_log_probability: float
    """Ascending sum of the counted log-probabilities, in nats."""
    mean_nll: float | None
    """Ascending sum of the counted negative log-probabilities by their count; None when none counts."""
    logits: Logits | None
    """ALL: one row per input token, (T, V)."""
    top_entries: tuple[TopEntries, ...]
    work: Work


@dataclass(frozen=True, slots=True)
class Scores:
    """What one call scored, in the order of its sequences."""

    sequences: tuple[SequenceScore, ...]
    work: Work


def score_sequence_message_of(sequence: ScoreSequence | Tokens) -> decoder_pb2.ScoreSequence:
    """Return the message; raises ValueError for what one cannot hold."""
    if not isinstance(sequence, ScoreSequence):
        sequence = ScoreSequence(sequence)
    message = decoder_pb2.ScoreSequence(
        target_mask=sequence.target_mask, document_lengths=sequence.document_lengths
    )
    put_tokens(message, sequence.tokens)
    if sequence.targets is not None:
        message.targets.SetInParent()
        message.targets.ids.extend(sequence.targets)
    return message


def scores_of(message: decoder_pb2.ScoreResponse) -> Scores:
    """Return what an answer holds."""
    return Scores(tuple(_sequence_score_of(score) for score in message.scores), work_of(message.work))


def _sequence_score_of(message: decoder_pb2.SequenceScore) -> SequenceScore:
    return SequenceScore(
        token_ids=tuple(message.token_ids),
        tokens=tuple(
            ScoredToken(token.target_id, token.log_probability, token.greedy, token.counted)
            for token in message.tokens
        ),
        sum_log_probability=message.sum_log_probability,
        mean_nll=message.mean_nll if message.HasField("mean_nll") else None,
        logits=logits_of(message.logits) if message.HasField("logits") else None,
        top_entries=top_entries_of(message.top_entries),
        work=work_of(message.work),
    )
