"""Every part of a job runs exactly once, whoever helps and however many jobs there are."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from numba import carray, types

from zeroulp.model.kernels.arrays import I64
from zeroulp.model.kernels.atomics import atomic_add, pointer_at
from zeroulp.model.kernels.jit import Part
from zeroulp.model.kernels.parts import JOB_WORDS
from zeroulp.model.kernels.team import ASLEEP, BUSY, help_out, new_control, run_jobs

SIZE = 64
this_thread = types.ExternalFunction("pthread_self", types.uint64())


@Part
def count_and_sign(row: Any, part: int) -> None:
    """Turns, counts, threads, waste: writes who runs the part, takes its time, and adds 1 to its count."""
    job = carray(row, JOB_WORDS)
    counts = carray(pointer_at(job[3]), (SIZE,), np.int64)
    threads = carray(pointer_at(job[4]), (SIZE,), np.int64)
    threads[part] = np.int64(this_thread())
    waste = carray(pointer_at(job[5]), (SIZE,), np.int64)
    for _ in range(job[2]):
        atomic_add(waste, part, 1)
    atomic_add(counts, part, 1)  # at the end: a caller that does not wait for it sees too few


class Jobs:
    """Jobs that run together, of ``parts`` each."""

    def __init__(self, *parts: int, turns: int = 0) -> None:
        self.parts, shape = parts, (len(parts), SIZE)
        self.counts, self.threads = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
        self.waste = np.zeros(SIZE, np.int64)
        self.rows = np.zeros((len(parts), JOB_WORDS), np.int64)
        for row, count, counts, threads in zip(self.rows, parts, self.counts, self.threads, strict=True):
            row[:3] = count_and_sign.address, count, turns
            row[3:6] = counts.ctypes.data, threads.ctypes.data, self.waste.ctypes.data

    def ran_once(self, control: I64) -> bool:
        """Run them; tell whether each part ran exactly once."""
        self.counts[:] = 0
        run_jobs(control, self.rows)
        return self.counts.tolist() == [[1] * count + [0] * (SIZE - count) for count in self.parts]

    @property
    def runners(self) -> set[int]:
        """The threads that ran parts."""
        return set(np.concatenate([t[:n] for t, n in zip(self.threads, self.parts, strict=True)]).tolist())


@contextmanager
def helped(control: I64, helpers: int) -> Iterator[None]:
    control[ASLEEP] = 0
    threads = [threading.Thread(target=help_out, args=(control,)) for _ in range(helpers)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        control[ASLEEP] = 1
        for thread in threads:
            thread.join(30)
            assert not thread.is_alive()


ALL = [(1,), (2,), (63,), (64,), (1, 1), (3, 64), (1, 2, 3), (64, 1, 64)]


@pytest.mark.parametrize("parts", ALL)
def test_alone(alone: I64, parts: tuple[int, ...]) -> None:
    assert Jobs(*parts).ran_once(alone)
    alone[ASLEEP] = 0  # awake, but nobody came
    for _ in range(3):
        assert Jobs(*parts).ran_once(alone)


@pytest.mark.parametrize("helpers", [1, 2, 6])
def test_every_part_once(alone: I64, helpers: int) -> None:
    help_out(alone)  # compiled before anybody waits for it; asleep, so it returns
    with helped(alone, helpers):
        for turns in (0, 20, 500):
            every = [Jobs(*parts, turns=turns) for parts in ALL]
            for _ in range(100):
                for jobs in every:
                    assert jobs.ran_once(alone)


def test_helpers_do_help_and_are_waited_for(alone: I64) -> None:
    help_out(alone)
    jobs, helped_jobs = Jobs(64, turns=20_000), 0
    with helped(alone, 1):
        for _ in range(300):
            assert jobs.ran_once(alone)
            helped_jobs += len(jobs.runners) == 2
            if helped_jobs == 20:
                break
    assert helped_jobs == 20


def test_a_busy_team_leaves_a_second_caller_to_itself(alone: I64) -> None:
    help_out(alone)
    with helped(alone, 1):
        alone[BUSY] = 1
        jobs = Jobs(64, 3, turns=1000)
        assert jobs.ran_once(alone)
        assert len(jobs.runners) == 1
        alone[BUSY] = 0
        assert jobs.ran_once(alone)
        assert alone[BUSY] == 0


def test_two_callers_at_once(alone: I64) -> None:
    wrong: list[int] = []

    def call(*parts: int) -> None:
        jobs = Jobs(*parts, turns=50)
        wrong.extend(turn for turn in range(300) if not jobs.ran_once(alone))

    help_out(alone)
    with helped(alone, 2):
        callers = [threading.Thread(target=call, args=parts) for parts in ((5, 6), (64,))]
        for caller in callers:
            caller.start()
        for caller in callers:
            caller.join(60)
            assert not caller.is_alive()
    assert wrong == []


def test_control_words_are_on_lines_of_their_own() -> None:
    from zeroulp.model.kernels import team

    places = [team.TICKET, team.DONE, team.BUSY, team.ASLEEP, team.JOBS]
    assert all(b - a >= 8 for a, b in pairwise(places))
    assert new_control().size >= team.JOBS + team.MOST_JOBS * JOB_WORDS
    assert new_control()[ASLEEP] == 1
