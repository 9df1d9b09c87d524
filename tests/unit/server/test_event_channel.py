"""Events reach the one reader in order; the writer never waits, and the reader's room wakes it."""

from __future__ import annotations

import threading
from itertools import islice

import pytest

from zeroulp.model.errors import Draining
from zeroulp.server.engine.calls import Generated
from zeroulp.server.engine.event_channel import EventChannel


def event(number: int) -> Generated:
    return Generated(number, number, "", None, None, ())


def numbers(channel: EventChannel[Generated], count: int | None = None) -> list[int]:
    events = islice(channel, count)
    return [e.token for e in events]


def filled(capacity: int, *tokens: int) -> EventChannel[Generated]:
    channel = EventChannel[Generated](capacity)
    for token in tokens:
        channel.put(event(token))
    return channel


def test_order_and_end() -> None:
    channel = filled(8, 3, 1, 2)
    channel.close()
    assert numbers(channel) == [3, 1, 2]
    assert numbers(channel) == []


def test_the_error_comes_after_the_events() -> None:
    channel, error = filled(8, 1, 2), Draining("enough")
    channel.close(error)
    assert numbers(channel, 2) == [1, 2]
    with pytest.raises(Draining) as raised:
        numbers(channel)
    assert raised.value is error


def test_full_at_the_capacity() -> None:
    channel = EventChannel[Generated](2)
    assert not channel.full
    channel.put(event(1))
    assert not channel.full
    channel.put(event(2))
    assert channel.full
    channel.put(event(3))  # a last event, an end for instance, is never lost
    channel.close()
    assert channel.full
    assert numbers(channel) == [1, 2, 3]
    assert not channel.full


def test_room_is_told_once_per_event_that_was_read_from_a_full_channel() -> None:
    channel, told = filled(2, 1, 2), []
    channel.on_room = lambda: told.append(channel.full)
    reader = iter(channel)
    next(reader)
    assert told == [False]  # there is room by the time it is told
    next(reader)
    assert told == [False]
    for token in (3, 4):
        channel.put(event(token))
    next(reader)
    assert told == [False, False]


def test_a_reader_waits_for_the_writer() -> None:
    channel, read = EventChannel[Generated](4), []
    thread = threading.Thread(target=lambda: read.extend(numbers(channel)))
    thread.start()
    for token in range(50):
        channel.put(event(token))
    channel.close()
    thread.join(30)
    assert not thread.is_alive()
    assert read == list(range(50))


@pytest.mark.parametrize("error", [None, Draining("stop")])
def test_closing_wakes_a_waiting_reader(error: Draining | None) -> None:
    channel, ended = EventChannel[Generated](4), []

    def read() -> None:
        try:
            ended.append(numbers(channel))
        except Draining as raised:
            ended.append([raised is error])

    thread = threading.Thread(target=read)
    thread.start()
    channel.close(error)
    thread.join(30)
    assert not thread.is_alive()
    assert ended == [[] if error is None else [True]]


def test_a_writer_that_waits_for_room_gets_on() -> None:
    channel, room, read = EventChannel[Generated](2), threading.Semaphore(0), []
    channel.on_room = room.release
    thread = threading.Thread(target=lambda: read.extend(numbers(channel)))
    for token in range(2):
        channel.put(event(token))
    thread.start()
    for token in range(2, 100):
        while channel.full:
            assert room.acquire(timeout=30)
        channel.put(event(token))
    channel.close()
    thread.join(30)
    assert read == list(range(100))
