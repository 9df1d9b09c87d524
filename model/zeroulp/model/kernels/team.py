"""Sharing one kernel's independent parts among threads, inside machine code.

A job is a row of int64: what code to call, how many parts, and its arguments as addresses, integers
and f64 bits. The caller publishes up to MOST_JOBS independent jobs and works on their parts itself;
whoever else is awake takes parts too. The caller waits for parts that were taken, never for a thread to
arrive: a helper that the system has put to sleep delays nothing, and no helper at all is only slower.
Which thread computes a part cannot change a bit, since no sum is split over parts.

Control words, each on a cache line of its own:
    TICKET  number of the publication * 2**20 + next part: taking a part is one compare-and-exchange on it
    DONE    parts of the present jobs that are finished
    BUSY    1 while a caller owns the team; another caller then does its own job alone
    ASLEEP  1 when helpers should leave
    JOBS    how many jobs there are, then their rows
"""

from __future__ import annotations

import numpy as np

from zeroulp.model.kernels.arrays import I64
from zeroulp.model.kernels.atomics import (
    atomic_add,
    atomic_exchange_if,
    atomic_load,
    atomic_store,
    call_part,
    give_way,
)
from zeroulp.model.kernels.jit import kernel
from zeroulp.model.kernels.parts import JOB_WORDS

MOST_JOBS = 3
TICKET, DONE, BUSY, ASLEEP, JOBS = 0, 8, 16, 24, 32
CONTROL_WORDS = JOBS + 8 + MOST_JOBS * JOB_WORDS
_NUMBER = 1 << 20
_CLOSED = _NUMBER - 1
"""The next part of a number under which no part is to be had; jobs have fewer parts."""
_SPINS = 2000
"""Looks at the ticket before giving way: some microseconds, the gap between two kernels of a step."""


def new_control() -> I64:
    """Return the control words of a team that nobody has joined yet."""
    control = np.zeros(CONTROL_WORDS, np.int64)
    control[ASLEEP] = 1
    return control


@kernel
def _all_parts(jobs: I64) -> int:
    parts = 0
    for job in range(jobs.shape[0]):
        parts += jobs[job, 1]
    return parts


@kernel
def _call(jobs: I64, part: int) -> None:
    """Run one of all the jobs' parts; they are counted through the jobs in order."""
    job = 0
    while part >= jobs[job, 1]:
        part -= jobs[job, 1]
        job += 1
    call_part(jobs[job], part)


@kernel
def _take(control: I64, number: int, parts: int) -> int:
    """Take the next part of publication ``number``; -1 when it has none left or is over."""
    while True:
        ticket = atomic_load(control, TICKET)
        part = ticket % _NUMBER
        if ticket // _NUMBER != number or part >= parts:
            return -1
        if atomic_exchange_if(control, TICKET, ticket, ticket + 1):
            return part


@kernel
def _work(control: I64, number: int) -> None:
    # The rows are read before a part is taken. If a part of this number is still to be had, then its
    # caller is still waiting, and the rows have not changed since the number was published. If not,
    # they may be half written: the count is bounded before it is used.
    count = min(max(control[JOBS], 0), MOST_JOBS)
    jobs = np.empty((count, JOB_WORDS), np.int64)
    for job in range(count):
        for word in range(JOB_WORDS):
            jobs[job, word] = control[JOBS + 8 + job * JOB_WORDS + word]
    parts = _all_parts(jobs)
    part = _take(control, number, parts)
    while part >= 0:
        _call(jobs, part)
        atomic_add(control, DONE, 1)
        part = _take(control, number, parts)


@kernel
def run_jobs(control: I64, jobs: I64) -> None:
    """Run all parts of ``jobs [count, JOB_WORDS]``, with the help of whoever is awake."""
    parts = _all_parts(jobs)
    if parts == 1 or atomic_load(control, ASLEEP) == 1 or not atomic_exchange_if(control, BUSY, 0, 1):
        for part in range(parts):
            _call(jobs, part)
        return
    # A closed number first: a helper that still looks at the last jobs must not take a part of them
    # with the rows that are being written.
    number = atomic_load(control, TICKET) // _NUMBER + 2
    atomic_store(control, TICKET, (number - 1) * _NUMBER + _CLOSED)
    control[JOBS] = jobs.shape[0]
    for job in range(jobs.shape[0]):
        for word in range(JOB_WORDS):
            control[JOBS + 8 + job * JOB_WORDS + word] = jobs[job, word]
    atomic_store(control, DONE, 0)
    atomic_store(control, TICKET, number * _NUMBER)
    _work(control, number)
    looks = 0
    while atomic_load(control, DONE) < parts:
        looks += 1
        if looks > _SPINS:
            give_way()
    atomic_store(control, BUSY, 0)


@kernel
def help_out(control: I64) -> None:
    """Take parts of all jobs that are published, until the team is sent to sleep."""
    seen = 0
    looks = 0
    while atomic_load(control, ASLEEP) == 0:
        number = atomic_load(control, TICKET) // _NUMBER
        if number != seen:
            seen = number
            looks = 0
            _work(control, number)
        else:
            looks += 1
            if looks > _SPINS:
                give_way()
