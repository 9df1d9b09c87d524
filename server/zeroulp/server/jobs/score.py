"""Score: full forwards with teacher forcing, without a session."""

from __future__ import annotations

import numpy as np

from zeroulp.model.cache.transaction import Transaction
from zeroulp.model.composition.text_segment import text_segment
from zeroulp.model.errors import InvalidArgument
from zeroulp.model.kernels.arrays import F64, I64
from zeroulp.model.probabilities import LogProbabilities, log_probabilities
from zeroulp.model.work import Work, work_of
from zeroulp.server.engine.calls import (
    LogitRows,
    Scope,
    ScoredToken,
    ScoreSequence,
    SequenceScore,
    TopAt,
    Wanted,
)
from zeroulp.server.engine.hall import Hall
from zeroulp.server.engine.stop_signal import StopSignal
from zeroulp.server.jobs.job import Job, Share


class ScoreJob(Job):
    """Scores its sequences one after the other in one room that holds the longest of them."""

    def __init__(self, stop: StopSignal, sequences: tuple[ScoreSequence, ...], wanted: Wanted) -> None:
        super().__init__(stop)
        self._sequences = sequences
        self._wanted = wanted
        self._scores: list[SequenceScore] = []
        self._room: Transaction | None = None
        self._reading = _Reading()

    def start(self, hall: Hall) -> None:
        """Check all sequences, the answer and the cache; hold the room."""
        limit = hall.limits.max_score_sequences
        if not 1 <= len(self._sequences) <= limit:
            raise InvalidArgument(
                f"sequences has {len(self._sequences)} entries; 1 to {limit} are allowed", field="sequences"
            )
        self._ids = [_checked(hall, index, sequence) for index, sequence in enumerate(self._sequences)]
        hall.check_entries(self._wanted.top_entries)
        tokens = sum(ids.size for ids in self._ids)
        rows = {Scope.NONE: 0, Scope.LAST: len(self._ids), Scope.ALL: tokens}[self._wanted.scope]
        hall.check_answer_size(rows, max(rows, len(self._ids)) * self._wanted.top_entries, tokens)
        self._room = Transaction(hall.model.new_cache(hall.pool), max(ids.size for ids in self._ids))

    def share(self, hall: Hall, room: int) -> Share | None:
        """Return the next chunk of the present sequence."""
        if self._room is None:
            return None
        done = self._room.next_position
        chunk = self._ids[len(self._scores)][done : done + room]
        return Share(text_segment(self._room, chunk), 0)

    def take(self, hall: Hall, share: Share, hidden: F64, logits: F64) -> None:
        """Read the chunk's log-probabilities; answer after the last sequence."""
        sequence = self._sequences[len(self._scores)]
        first = self._reading.rows
        newest = first + len(logits) == len(sequence.ids)
        self._reading.read(log_probabilities(hall.context, logits), sequence, first, self._wanted, newest)
        if not newest or self._room is None:
            return
        work = work_of(hall.model.configuration, 0, len(sequence.ids), prefill=True, cached=False)
        self._scores.append(self._reading.score(sequence, work=work))
        self._reading = _Reading()
        self._room.discard(0)
        if len(self._scores) == len(self._sequences):
            self.stop.check()
            self.answer(tuple(self._scores))

    def release(self, hall: Hall) -> None:
        """Give the room back."""
        if self._room is not None:
            self._room.rollback()
            self._room = None


def _checked(hall: Hall, index: int, sequence: ScoreSequence) -> I64:
    """Return the sequence's ids; raises for what cannot be scored."""
    field = f"sequences[{index}]"
    hall.model.check_room(0, len(sequence.ids), field=f"{field}.token_ids")
    ids = hall.model.check_tokens(sequence.ids, field=f"{field}.token_ids")
    hall.model.check_tokens(sequence.targets, field=f"{field}.targets", allow_empty=True)
    if len(sequence.targets) not in (ids.size, ids.size - 1):
        raise InvalidArgument(
            f"{field} has {len(sequence.targets)} targets for {ids.size} tokens; "
            "one for each token is needed",
            field=f"{field}.targets",
        )
    if len(sequence.mask) != len(sequence.targets):
        raise InvalidArgument(
            f"{field} has {len(sequence.mask)} mask entries for {len(sequence.targets)} targets",
            field=f"{field}.target_mask",
        )
    return ids


class _Reading:
    """What has been read of one sequence so far."""

    def __init__(self) -> None:
        self._tokens: list[ScoredToken] = []
        self._top: list[TopAt] = []
        self._rows: list[F64] = []
        self._first_row = 0
        self.rows = 0

    def read(
        self, table: LogProbabilities, sequence: ScoreSequence, first: int, wanted: Wanted, newest: bool
    ) -> None:
        """Read rows that follow the positions ``first ...``."""
        rows = len(table.z)
        self.rows += rows
        for row in range(min(rows, len(sequence.targets) - first)):
            target = sequence.targets[first + row]
            greedy = int(table.best[row]) == target
            counted = sequence.mask[first + row]
            self._tokens.append(ScoredToken(target, table.of(row, target), greedy, counted))
        in_scope = range(rows) if wanted.scope is Scope.ALL else range(rows - 1, rows) if newest else range(0)
        if wanted.top_entries:
            self._top.extend(TopAt(first + row, table.top(row, wanted.top_entries)) for row in in_scope)
        if wanted.scope is not Scope.NONE and in_scope:
            self._first_row = self._first_row if self._rows else first + in_scope[0]
            self._rows.append(table.z[in_scope[0] :])

    def score(self, sequence: ScoreSequence, *, work: Work) -> SequenceScore:
        """Return the finished score. Sums ascend over the counted targets and start at +0.0."""
        total, nll, count = 0.0, 0.0, 0
        for token in self._tokens:
            if token.counted:
                total += token.log_probability
                nll += -token.log_probability
                count += 1
        rows = LogitRows(self._first_row, np.concatenate(self._rows)) if self._rows else None
        mean = nll / count if count else None
        return SequenceScore(sequence.ids, tuple(self._tokens), total, mean, rows, tuple(self._top), work)
