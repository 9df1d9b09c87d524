"""Open sessions by id: places, turns, and blocks that come back."""

from __future__ import annotations

import pytest

from unit.model import models
from zeroulp.model.errors import SessionBusy, SessionLimit, SessionUnknown
from zeroulp.model.session import Session
from zeroulp.server.engine.session_table import OpenSession, SessionTable
from zeroulp.server.engine.stop_signal import StopSignal
from zeroulp.server.jobs.job import Job

MODEL = models.seeded(models.SMALL, 1)


def session() -> Session:
    return Session(MODEL.new_cache(models.pool_for(MODEL, 64)))


def opened(table: SessionTable) -> OpenSession:
    table.take_place()
    return table.open(session())


def test_find() -> None:
    table = SessionTable(4, 2)
    one, two = opened(table), opened(table)
    assert one.id != two.id
    assert table.find(one.id) is one
    assert table.find(two.id) is two
    assert (len(table), list(table)) == (2, [one, two])
    for unknown in ("", one.id[:-1], one.id + "x"):
        with pytest.raises(SessionUnknown) as refused:
            table.find(unknown)
        assert refused.value.violations[0].field == "session_id"
        assert not unknown or unknown not in refused.value.message


def test_ids_cannot_be_guessed() -> None:
    table = SessionTable(100, 2)
    ids = {opened(table).id for _ in range(100)}
    assert len(ids) == 100
    assert all(len(id_) >= 22 for id_ in ids)  # 16 bytes


def test_a_held_place_counts_as_open() -> None:
    table = SessionTable(2, 1)
    first = opened(table)
    table.take_place()
    for _ in range(2):
        with pytest.raises(SessionLimit) as refused:
            table.take_place()
        assert refused.value.metadata == {"max_sessions": "2"}
    table.give_place()
    second = opened(table)
    with pytest.raises(SessionLimit):
        table.take_place()
    table.close(first)
    third = opened(table)
    assert list(table) == [second, third]


def test_closing_gives_the_blocks_back() -> None:
    table = SessionTable(2, 1)
    one = opened(table)
    pool = one.session.cache.pool
    one.session.cache.reserve(40)
    assert pool.free == 0
    table.close(one)
    assert pool.free == 2
    with pytest.raises(SessionUnknown):
        table.find(one.id)


def test_turns() -> None:
    table = SessionTable(2, 2)
    one, two = opened(table), opened(table)
    jobs = [Job(StopSignal(), one.id) for _ in range(4)]
    for job in jobs[:3]:
        job.opened = one
        table.queue_writer(one, job)
    assert [job.has_turn for job in jobs[:3]] == [True, False, False]
    with pytest.raises(SessionBusy) as refused:
        table.queue_writer(one, jobs[3])
    assert refused.value.metadata == {"max_waiting": "2"}
    assert list(one.writers) == jobs[:3]
    table.queue_writer(two, jobs[3])  # another session is not busy
    one.writers.popleft()
    assert [job.has_turn for job in jobs[1:3]] == [True, False]


def test_a_call_without_a_session_waits_for_nobody() -> None:
    job = Job(StopSignal())
    assert job.has_turn
    with pytest.raises(RuntimeError, match="no session"):
        _ = job.writing


def test_integrity_check_finds_places_and_prefixes_that_are_wrong() -> None:
    table = SessionTable(2, 1)
    table.check_integrity()
    one = opened(table)
    table.take_place()
    table.check_integrity()
    for places in (-1, 2):
        table._places = places
        with pytest.raises(RuntimeError, match="places of 2"):
            table.check_integrity()
    table._places = 0
    one.session.tokens.append(1)
    with pytest.raises(RuntimeError, match="1 tokens, 0 rows"):
        table.check_integrity()
    one.session.tokens.clear()
    table._prefixes.remove(one)
    with pytest.raises(RuntimeError, match="prefix index"):
        table.check_integrity()
