"""A job ends once, well or with an error, and tells its future."""

from __future__ import annotations

from functools import partial

import pytest

from zeroulp.model.errors import Draining
from zeroulp.server.engine.lifecycle import Stage
from zeroulp.server.engine.stop_signal import StopSignal
from zeroulp.server.jobs.job import Job


def running() -> Job:
    job = Job(StopSignal())
    job.begin(0)
    return job


def test_a_good_end() -> None:
    job = Job(StopSignal())
    assert (job.stage, job.ended) == (Stage.QUEUED, False)
    job.begin(0)
    assert (job.stage, job.ended) == (Stage.RUNNING, False)
    job.answer("outcome")
    assert (job.stage, job.ended) == (Stage.DONE, True)
    assert not job.future.done(), "told before the engine has let its room and turn go"
    job.tell()
    assert job.future.result(0) == "outcome"
    assert job.queue_seconds >= 0.0
    assert job.compute_seconds >= 0.0


@pytest.mark.parametrize("started", [True, False])
def test_a_bad_end(started: bool) -> None:
    job = running() if started else Job(StopSignal())
    error = Draining("stopping")
    job.fail(error)
    assert (job.stage, job.ended) == (Stage.FAILED, True)
    assert job.future.exception(0) is error


def test_nothing_follows_an_end() -> None:
    for job, end in ((running(), "answer"), (running(), "fail")):
        if end == "answer":
            job.answer(1)
        else:
            job.fail(Draining("x"))
        for again in (
            lambda job=job: job.answer(2),
            lambda job=job: job.fail(Draining("y")),
            partial(job.begin, 0),
        ):
            with pytest.raises(RuntimeError, match="cannot go"):
                again()


def test_an_answer_needs_a_start() -> None:
    with pytest.raises(RuntimeError, match="cannot go from queued to done"):
        Job(StopSignal()).answer(1)
