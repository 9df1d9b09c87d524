"""A step knows whose each of its rows is."""

from __future__ import annotations

import numpy as np
import pytest

from unit.model import models
from zeroulp.model.cache.transaction import Transaction
from zeroulp.model.composition.text_segment import text_segment
from zeroulp.model.errors import CallCancelled
from zeroulp.server.engine.step import Step, StepBroken
from zeroulp.server.engine.stop_signal import StopSignal
from zeroulp.server.jobs.job import Job, Share

MODEL = models.seeded(models.SMALL, 1)


def share(rows: int, first_wanted: int) -> Share:
    call = Transaction(MODEL.new_cache(models.pool_for(MODEL, 64)), rows)
    return Share(text_segment(call, np.zeros(rows, np.int64)), first_wanted)


def step(*shares: tuple[int, int]) -> tuple[Step, list[Job]]:
    jobs = [Job(StopSignal()) for _ in shares]
    return Step([(job, share(*given)) for job, given in zip(jobs, shares, strict=True)]), jobs


def test_wanted_rows() -> None:
    made, _ = step((3, 2), (1, 0), (4, 4), (2, 0))
    assert made.head_rows(np.arange(10.0)[:, None])[:, 0].tolist() == [2.0, 3.0, 8.0, 9.0]
    assert step((2, 2))[0].head_rows(np.zeros((2, 5))).shape == (0, 5)


def test_owners() -> None:
    made, (a, b, c) = step((3, 2), (1, 0), (2, 2))
    assert [made.owner_of_row(row) for row in range(6)] == [a, a, a, b, c, c]


def test_results() -> None:
    made, jobs = step((3, 2), (1, 0), (4, 4), (2, 0))
    hidden = np.arange(10.0)[:, None]
    logits = made.head_rows(hidden)
    got = [
        (job, share.rows, h[:, 0].tolist(), z[:, 0].tolist())
        for job, share, h, z in made.results(hidden, logits)
    ]
    assert got == [
        (jobs[0], 3, [0.0, 1.0, 2.0], [2.0]),
        (jobs[1], 1, [3.0], [3.0]),
        (jobs[2], 4, [4.0, 5.0, 6.0, 7.0], []),
        (jobs[3], 2, [8.0, 9.0], [8.0, 9.0]),
    ]


def test_a_job_that_is_not_wanted_breaks_the_step() -> None:
    made, jobs = step((1, 0), (1, 0))
    made.check()
    jobs[1].stop.cancel()
    with pytest.raises(StepBroken) as broken:
        made.check()
    assert broken.value.job is jobs[1]
    assert isinstance(broken.value.error, CallCancelled)


def test_stored_rows_go_through_the_head_only() -> None:
    made, jobs = step((3, 2), (1, 0))
    stored, reader = np.array([[70.0], [71.0]]), Job(StopSignal())
    shares = [made.shares[0], (reader, Share(None, stored=stored)), made.shares[1]]
    mixed = Step(shares)
    assert (shares[1][1].rows, shares[1][1].wanted_rows, shares[1][1].size) == (0, 2, 2)
    assert len(mixed.segments) == 2
    hidden = np.arange(4.0)[:, None]
    head = mixed.head_rows(hidden)
    assert head[:, 0].tolist() == [2.0, 70.0, 71.0, 3.0]
    assert [mixed.owner_of_row(row) for row in range(4)] == [jobs[0]] * 3 + [jobs[1]]
    assert [mixed.owner_of_head_row(row) for row in range(4)] == [jobs[0], reader, reader, jobs[1]]
    got = [(job, h[:, 0].tolist(), z[:, 0].tolist()) for job, _, h, z in mixed.results(hidden, head)]
    assert got == [(jobs[0], [0.0, 1.0, 2.0], [2.0]), (reader, [], [70.0, 71.0]), (jobs[1], [3.0], [3.0])]
