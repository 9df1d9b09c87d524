"""Score: full forwards with teacher forcing, without a session."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from zeroulp.model.cache.transaction import Transaction
from zeroulp.model.composition.text_batch import TextBatch
from zeroulp.model.composition.text_segment import row_segment
from zeroulp.model.errors import InvalidArgument
from zeroulp.model.kernels.arrays import F64
from zeroulp.model.probabilities import log_probabilities
from zeroulp.server.engine.calls import Scope, ScoreSequence, SequenceScore, Wanted
from zeroulp.server.engine.hall import Hall
from zeroulp.server.engine.stop_signal import StopSignal
from zeroulp.server.jobs.job import Job, Share
from zeroulp.server.jobs.scoring import Scoring


class ScoreJob(Job):
    """Packs its sequences into rows and computes these one after the other, in one room for the longest.

    A row is as long as a step, so that short sequences share steps; what is packed sees nothing of its
    neighbours and has the bits that it has alone.
    """

    def __init__(self, stop: StopSignal, sequences: tuple[ScoreSequence, ...], wanted: Wanted) -> None:
        super().__init__(stop)
        self._sequences = sequences
        self._wanted = wanted
        self._unread: deque[Scoring] = deque()
        self._rows: deque[TextBatch] = deque()
        self._scores: list[SequenceScore] = []
        self._room: Transaction | None = None

    def start(self, hall: Hall) -> None:
        """Check all sequences, the answer and the cache; hold the room."""
        limit = hall.limits.max_score_sequences
        if not 1 <= len(self._sequences) <= limit:
            raise InvalidArgument(
                f"sequences has {len(self._sequences)} entries; 1 to {limit} are allowed", field="sequences"
            )
        scorings = [
            Scoring(hall, sequence, self._wanted, field=f"sequences[{index}]")
            for index, sequence in enumerate(self._sequences)
        ]
        hall.check_entries(self._wanted.top_entries)
        tokens = sum(scoring.ids.size for scoring in scorings)
        rows = {Scope.NONE: 0, Scope.LAST: len(scorings), Scope.ALL: tokens}[self._wanted.scope]
        hall.check_answer_size(rows, max(rows, len(scorings)) * self._wanted.top_entries, tokens)
        most = min(hall.limits.step_rows, hall.model.configuration.max_positions)
        packed = _packed(scorings, most)
        self._room = Transaction(hall.model.new_cache(hall.pool), max(row.ids.size for row in packed))
        self._rows.extend(packed)
        self._unread.extend(scorings)

    def share(self, hall: Hall, room: int) -> Share | None:
        """Return the next chunk of the present row."""
        if self._room is None:
            return None
        return Share(row_segment(self._room, self._rows[0], room), 0)

    def take(self, hall: Hall, share: Share, hidden: F64, logits: F64) -> None:
        """Read the chunk's log-probabilities; answer after the last sequence."""
        table, row = log_probabilities(hall.context, logits), 0
        while row < len(logits):
            scoring = self._unread[0]
            count = min(scoring.left, len(logits) - row)
            scoring.read(table, row, count)
            row += count
            if not scoring.left:
                self._scores.append(self._unread.popleft().score(hall.model.configuration))
        if self._room is not None and self._room.next_position == self._rows[0].ids.size:
            self._rows.popleft()
            self._room.discard(0)
        if not self._rows:
            self.stop.check()
            self.answer(tuple(self._scores))

    def release(self, hall: Hall) -> None:
        """Give the room back."""
        if self._room is not None:
            self._room.rollback()
            self._room = None


def _packed(scorings: Sequence[Scoring], most: int) -> list[TextBatch]:
    """Pack the sequences, in their order, into rows of ``most`` cells; a longer one has a row of its own."""
    rows: list[list[Scoring]] = []
    cells = most
    for scoring in scorings:
        cells += scoring.ids.size
        if cells > most:
            rows.append([])
            cells = scoring.ids.size
        rows[-1].append(scoring)
    return [TextBatch.packed([[part for scoring in row for part in scoring.parts]]) for row in rows]
