"""The threads that share a step's products."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager

from zeroulp.model.kernels.arrays import I64
from zeroulp.model.kernels.team import ASLEEP, help_out, new_control


class ComputeTeam:
    """``threads - 1`` helpers beside the calling thread; results do not depend on their number.

    Helpers spin between the kernels of a step and sleep between steps. Any thread may compute with a
    team; while one does, another computes alone. The helpers end when the team is garbage-collected.
    """

    def __init__(self, threads: int = 1) -> None:
        self.threads = threads
        self.control: I64 = new_control()
        self._awake = threading.Event()
        self._closed = threading.Event()
        self._steps = 0
        self._lock = threading.Lock()
        for index in range(threads - 1):
            arguments = (self.control, self._awake, self._closed)
            threading.Thread(
                target=_help, args=arguments, name=f"compute-helper-{index}", daemon=True
            ).start()
        weakref.finalize(self, _dismiss, self._awake, self._closed)

    @contextmanager
    def awake(self) -> Iterator[None]:
        """Keep the helpers spinning for the length of a step."""
        with self._lock:
            self._steps += 1
            self.control[ASLEEP] = 0
            self._awake.set()
        try:
            yield
        finally:
            with self._lock:
                self._steps -= 1
                if not self._steps:
                    self._awake.clear()
                    self.control[ASLEEP] = 1


def _help(control: I64, awake: threading.Event, closed: threading.Event) -> None:
    # No reference to the team itself, so that it can be collected.
    while True:
        awake.wait()
        if closed.is_set():
            return
        help_out(control)


def _dismiss(awake: threading.Event, closed: threading.Event) -> None:
    closed.set()
    awake.set()
