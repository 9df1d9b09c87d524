"""One sequence to score: what is checked of it before anything runs, and what has been read of it so far."""

from __future__ import annotations

from itertools import accumulate, pairwise

import numpy as np

from zeroulp.model.configuration import Configuration
from zeroulp.model.errors import InvalidArgument
from zeroulp.model.kernels.arrays import F64, I64
from zeroulp.model.probabilities import LogProbabilities
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


class Scoring:
    """A checked sequence on its way; raises an ``InputError`` that names ``field`` if it cannot be scored."""

    def __init__(self, hall: Hall, sequence: ScoreSequence, wanted: Wanted, *, field: str) -> None:
        hall.model.check_room(0, len(sequence.ids), field=f"{field}.token_ids")
        self.ids: I64 = hall.model.check_tokens(sequence.ids, field=f"{field}.token_ids")
        self.documents = _documents(sequence, field=f"{field}.document_lengths")
        targets = self._targets(sequence, field=f"{field}.targets")
        hall.model.check_tokens(list(targets.values()), field=f"{field}.targets", allow_empty=True)
        counted = sequence.mask or (True,) * len(targets)
        if len(counted) != len(targets):
            raise InvalidArgument(
                f"{field} has {len(counted)} mask entries for {len(targets)} targets",
                field=f"{field}.target_mask",
            )
        self._sequence = sequence
        self._wanted = wanted
        self._expected = {
            position: (target, counts)
            for (position, target), counts in zip(targets.items(), counted, strict=True)
        }
        self._tokens: list[ScoredToken] = []
        self._top: list[TopAt] = []
        self._rows: list[F64] = []
        self._done = 0

    def _targets(self, sequence: ScoreSequence, *, field: str) -> dict[int, int]:
        """Return the target of each position that has one, ascending."""
        if sequence.targets is None:
            ends = {end - 1 for end in accumulate(self.documents)}
            positions = [position for position in range(len(sequence.ids)) if position not in ends]
            return {position: sequence.ids[position + 1] for position in positions}
        if len(sequence.targets) != len(sequence.ids):
            raise InvalidArgument(
                f"{len(sequence.targets)} targets for {len(sequence.ids)} tokens; "
                "one for each token is needed",
                field=field,
            )
        return dict(enumerate(sequence.targets))

    @property
    def parts(self) -> list[tuple[int, ...]]:
        """The ids of each document."""
        ends = accumulate(self.documents, initial=0)
        return [self._sequence.ids[start:end] for start, end in pairwise(ends)]

    @property
    def left(self) -> int:
        """Rows that have not been read."""
        return self.ids.size - self._done

    def read(self, table: LogProbabilities, start: int, count: int) -> None:
        """Read the next ``count`` rows, which the table has from ``start`` on."""
        shift, end = self._done - start, start + count  # a row's position is the row plus shift
        for row in range(start, end):
            if row + shift in self._expected:
                target, counts = self._expected[row + shift]
                greedy = int(table.best[row]) == target
                self._tokens.append(ScoredToken(target, table.of(row, target), greedy, counts))
        if self._wanted.scope is Scope.ALL:
            self._keep(table, range(start, end), shift)
        elif count == self.left:
            self._keep(table, range(end - 1, end), shift)
        self._done += count

    def _keep(self, table: LogProbabilities, rows: range, shift: int) -> None:
        if self._wanted.top_entries:
            self._top.extend(TopAt(row + shift, table.top(row, self._wanted.top_entries)) for row in rows)
        if self._wanted.scope is not Scope.NONE:
            # a copy: the table may hold many rows of other sequences
            self._rows.append(table.z[rows.start : rows.stop].copy())

    def score(self, configuration: Configuration) -> SequenceScore:
        """Return the finished score. Sums ascend over the counted targets and start at +0.0."""
        total, nll, count = 0.0, 0.0, 0
        for token in self._tokens:
            if token.counted:
                total += token.log_probability
                nll += -token.log_probability
                count += 1
        rows = None
        if self._rows:
            z = np.concatenate(self._rows)  # [rows, V]
            rows = LogitRows(self.ids.size - len(z), z)
        mean = nll / count if count else None
        works = [work_of(configuration, 0, n, prefill=True, cached=False) for n in self.documents]
        return SequenceScore(
            self._sequence.ids, tuple(self._tokens), total, mean, rows, tuple(self._top), sum(works, Work())
        )


def _documents(sequence: ScoreSequence, *, field: str) -> tuple[int, ...]:
    """Return the length of each document."""
    lengths, tokens = sequence.document_lengths or (len(sequence.ids),), len(sequence.ids)
    if 0 in lengths:
        empty = lengths.index(0)
        raise InvalidArgument(
            f"{field}[{empty}] is 0; a document has at least 1 token", field=f"{field}[{empty}]"
        )
    if sum(lengths) != tokens:
        raise InvalidArgument(
            f"{field} adds up to {sum(lengths)}; the sequence has {tokens} tokens", field=field
        )
    return lengths
