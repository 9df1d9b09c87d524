"""The model's parameters get other values, between two steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from zeroulp.model.replacement import Replacement
from zeroulp.server.engine.hall import Hall
from zeroulp.server.engine.stop_signal import StopSignal
from zeroulp.server.jobs.job import Job


class SwapJob(Job):
    """Takes no step. Calls that are running end with ``ParametersChanged`` instead of their next step."""

    # Whoever has loaded a model for a minute is not refused for a moment's load.
    is_limited: ClassVar[bool] = False

    def __init__(self, stop: StopSignal, replacement: Replacement, on_published: Callable[[], None]) -> None:
        super().__init__(stop)
        self._replacement = replacement
        self._on_published = on_published
        """Called on the compute thread, before it computes with the new values."""

    def start(self, hall: Hall) -> None:
        """Publish the new values and answer."""
        self.stop.check()  # the last look: after this line the call has happened
        self._replacement.publish()
        self._on_published()
        self.answer(None)
