"""Sharing one kernel's independent parts among threads, inside machine code.

A job is a row of int64: what code to call, how many parts, and its arguments as addresses, integers and f64
bits. The caller publishes it and works on its parts itself; whoever else is awake takes parts too.
The caller waits for parts that were taken, never for a thread to arrive: a helper that the system has
put to sleep delays nothing, and no helper at all is only slower. Which thread computes a part cannot
change a bit, since no sum is split over parts.

Control words, each on a cache line of its own:
    TICKET  job number * 2**20 + next part: taking a part is one compare-and-exchange on it
    DONE    parts of the present job that are finished
    BUSY    1 while a caller owns the team; another caller then does its own job alone
    ASLEEP  1 when helpers should leave
    JOB     the job's row
"""

from __future__ import annotations

import numpy as np

from zeroulp.model.kernels.arrays import I64
from zeroulp.model.kernels.atomics import atomic_add, atomic_exchange_if, atomic_load, atomic_store, call_part, give_way
from zeroulp.model.kernels.jit import kernel
from zeroulp.model.kernels.parts import JOB_WORDS

TICKET, DONE, BUSY, ASLEEP, JOB = 0, 8, 16, 24, 32
CONTROL_WORDS = JOB + JOB_WORDS
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
def _take(control: I64, number: int, parts: int) -> int:
    """Take the next part of job ``number``; -1 when it has none left or is over."""
    while True:
        ticket = atomic_load(control, TICKET)
        part = ticket % _NUMBER
        if ticket // _NUMBER != number or part >= parts:
            return -1
        if atomic_exchange_if(control, TICKET, ticket, ticket + 1):
            return part


@kernel
def _work(control: I64, number: int) -> None:
    # The row is read before a part is taken. If a part of this number is still to be had, then its
    # caller is still waiting, and the row has not changed since the number was published.
    job = np.empty(JOB_WORDS, np.int64)
    for word in range(JOB_WORDS):
        job[word] = control[JOB + word]
    part = _take(control, number, job[1])
    while part >= 0:
        call_part(job, part)
        atomic_add(control, DONE, 1)
        part = _take(control, number, job[1])


@kernel
def run_job(control: I64, job: I64) -> None:
    """Run all parts of ``job``, with the help of whoever is awake."""
    parts = job[1]
    if parts == 1 or atomic_load(control, ASLEEP) == 1 or not atomic_exchange_if(control, BUSY, 0, 1):
        for part in range(parts):
            call_part(job, part)
        return
    # A closed number first: a helper that still looks at the last job must not take a part of it
    # with the row that is being written.
    number = atomic_load(control, TICKET) // _NUMBER + 2
    atomic_store(control, TICKET, (number - 1) * _NUMBER + _CLOSED)
    for word in range(JOB_WORDS):
        control[JOB + word] = job[word]
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
    """Take parts of every job that is published, until the team is sent to sleep."""
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
