"""A call that answers with a stream of events."""

from __future__ import annotations

from typing import Any

from zeroulp.server.engine.event_channel import EventChannel
from zeroulp.server.engine.stop_signal import StopSignal
from zeroulp.server.jobs.job import Job


class StreamJob(Job):
    """Its outcome is the last event; an error follows the events that were told before it."""

    def __init__(self, stop: StopSignal, channel: EventChannel[Any], session_id: str | None = None) -> None:
        super().__init__(stop, session_id)
        self.channel = channel

    def tell(self) -> None:
        """End the stream well."""
        self.channel.put(self._outcome)
        self.channel.close()
        super().tell()

    def fail(self, error: BaseException) -> None:
        """End the stream with an error."""
        super().fail(error)
        self.channel.close(error)
