"""One step: rows of several calls that go through the model together. No bit depends on who shares it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from zeroulp.model.composition.text_segment import TextSegment
from zeroulp.model.errors import CallError
from zeroulp.model.kernels.arrays import F64
from zeroulp.server.jobs.job import Job, Share


class StepBroken(Exception):
    """A job of the step is not wanted any more."""

    def __init__(self, job: Job, error: CallError) -> None:
        super().__init__()
        self.job = job
        self.error = error


class Step:
    """Shares in the order of their rows."""

    def __init__(self, shares: Sequence[tuple[Job, Share]]) -> None:
        self.shares = shares
        ends = np.cumsum([share.rows for _, share in shares])
        self._starts = [0, *ends.tolist()]

    def check(self) -> None:
        """Raise ``StepBroken`` if a job is not wanted any more; called between layers."""
        for job, _ in self.shares:
            try:
                job.stop.check()
            except CallError as error:
                raise StepBroken(job, error) from None

    @property
    def observed(self) -> bool:
        """Whether a share wants to see its rows of the stages."""
        return any(share.observer is not None for _, share in self.shares)

    def show(self, layer: int | None, stage: str, values: F64) -> None:
        """Show each share that wants it its own rows of a stage's ``values [rows, features]``."""
        for start, (_, share) in zip(self._starts, self.shares, strict=False):
            if share.observer is not None:
                share.observer(layer, stage, values[start : start + share.rows])

    @property
    def segments(self) -> list[TextSegment]:
        """Every share's segment."""
        return [share.segment for _, share in self.shares if share.segment is not None]

    def head_rows(self, hidden: F64) -> F64:
        """Return the rows of H ``[wanted, D]`` that need logits, share by share."""
        rows = [
            hidden[start + share.first_wanted : start + share.rows] if share.stored is None else share.stored
            for start, (_, share) in zip(self._starts, self.shares, strict=False)
        ]
        return np.concatenate(rows)

    def owner_of_row(self, row: int) -> Job:
        """Return the job that a row of the step belongs to."""
        return next(job for (job, _), end in zip(self.shares, self._starts[1:], strict=True) if row < end)

    def owner_of_head_row(self, row: int) -> Job:
        """Return the job that a row of `head_rows` belongs to."""
        ends = np.cumsum([share.wanted_rows for _, share in self.shares])
        return next(job for (job, _), end in zip(self.shares, ends, strict=True) if row < end)

    def results(self, hidden: F64, logits: F64) -> Iterator[tuple[Job, Share, F64, F64]]:
        """Yield each job with its rows of H ``[rows, D]`` and of the wanted logits ``[wanted, V]``."""
        taken = 0
        for start, (job, share) in zip(self._starts, self.shares, strict=False):
            wanted = logits[taken : taken + share.wanted_rows]
            yield job, share, hidden[start : start + share.rows], wanted
            taken += share.wanted_rows
