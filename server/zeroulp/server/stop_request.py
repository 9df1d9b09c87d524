"""Signals that ask the process to stop."""

from __future__ import annotations

import os
import signal
import socket
import threading
from types import FrameType


class StopRequest:
    """Set by the first SIGTERM or SIGINT, or by ``set``; a second signal ends the process at once.

    The kernel may hand a signal to any thread, and Python runs a handler on the main thread only, once that
    thread comes back from whatever it waits in, which can be never. So the handlers do nothing, and a thread
    of its own reads the signals' numbers from the socket that the interpreter writes them to when they come.
    """

    def __init__(self) -> None:
        self._event = threading.Event()
        self._numbers, self._wakeup = socket.socketpair()
        self._wakeup.setblocking(False)
        signal.set_wakeup_fd(self._wakeup.fileno())
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, _leave_it_to_the_reader)
        threading.Thread(target=self._read, name="signals", daemon=True).start()

    def set(self) -> None:
        """Ask for the stop from within."""
        self._event.set()

    def is_set(self) -> bool:
        """Tell whether a stop was asked for."""
        return self._event.is_set()

    def wait(self) -> None:
        """Return once a stop was asked for."""
        self._event.wait()

    def _read(self) -> None:
        while True:
            (number,) = self._numbers.recv(1)
            if number not in (signal.SIGTERM, signal.SIGINT):
                continue
            if self._event.is_set():
                # Asked twice: whoever asks does not want to wait for calls in flight.
                os._exit(128 + number)
            self._event.set()


def _leave_it_to_the_reader(number: int, frame: FrameType | None) -> None:
    pass
