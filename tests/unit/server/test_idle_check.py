"""The books are checked while nobody waits."""

from __future__ import annotations

import threading

import pytest

from unit.server.engines import (
    LIMITS,
    MODEL,
    PROMPT,
    close,
    prefill,
)
from zeroulp.model.compute_team import ComputeTeam
from zeroulp.server.engine import engine as engine_module
from zeroulp.server.engine.engine import Engine
from zeroulp.server.engine.hall import Hall


def test_the_books_are_checked_once_when_it_is_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    checks, check = threading.Semaphore(0), Hall.check_integrity

    def counted(hall: Hall) -> None:
        check(hall)
        checks.release()

    monkeypatch.setattr(engine_module, "_QUIET_SECONDS", 0.01)
    monkeypatch.setattr(Hall, "check_integrity", counted)
    engine = Engine(MODEL, None, LIMITS, ComputeTeam(1))
    try:
        for _ in range(3):
            assert checks.acquire(timeout=60)
            opened = prefill(engine, PROMPT[:40])
            assert checks.acquire(timeout=60)
            close(engine, opened.session_id)
        assert checks.acquire(timeout=60)
        assert not checks.acquire(timeout=0.1)
    finally:
        engine.stop()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_books_that_do_not_balance_end_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rather no answer than one from rows that two sessions may have written over each other."""
    dead = threading.Event()
    engine = Engine(MODEL, None, LIMITS, ComputeTeam(1))
    engine.on_death = dead.set
    prefill(engine, [1, 2])
    monkeypatch.setattr(engine_module, "_QUIET_SECONDS", 0.01)
    engine._hall.pool._references[0] += 1
    engine.wake()
    assert dead.wait(60)
    engine.stop()
