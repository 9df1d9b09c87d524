"""Whether a call is still wanted: cancelled by its caller, or past its deadline."""

from __future__ import annotations

import pytest

from zeroulp.model.errors import CallCancelled, DeadlinePassed
from zeroulp.server.engine import stop_signal
from zeroulp.server.engine.stop_signal import StopSignal


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(stop_signal, "time", clock)
    return clock


def test_wanted_without_a_deadline(clock: Clock) -> None:
    stop = StopSignal()
    clock.now += 1e9
    stop.check()


def test_deadline(clock: Clock) -> None:
    stop = StopSignal(2.0)
    stop.check()
    clock.now += 1.99
    stop.check()
    clock.now += 0.01
    with pytest.raises(DeadlinePassed):
        stop.check()


@pytest.mark.parametrize("seconds", [0.0, -1.0])
def test_a_deadline_that_is_over_at_the_start(clock: Clock, seconds: float) -> None:
    with pytest.raises(DeadlinePassed):
        StopSignal(seconds).check()


def test_cancelled(clock: Clock) -> None:
    stop, told = StopSignal(2.0), []
    stop.on_cancel = lambda: told.append(clock.now)
    stop.check()
    stop.cancel()
    assert told == [100.0]
    for _ in range(2):
        with pytest.raises(CallCancelled):
            stop.check()
    clock.now += 5.0  # cancelled first, so that stays the reason
    with pytest.raises(CallCancelled):
        stop.check()


def test_cancelled_without_anybody_to_tell() -> None:
    stop = StopSignal()
    stop.cancel()
    with pytest.raises(CallCancelled):
        stop.check()


def test_who_is_told_sees_the_cancellation() -> None:
    stop, seen = StopSignal(), []

    def look() -> None:
        try:
            stop.check()
        except CallCancelled:
            seen.append(True)

    stop.on_cancel = look
    stop.cancel()
    assert seen == [True]
