"""The log of a server inside the test's process, as the daemon would write it."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import structlog

from zeroulp.server.process import configure_logging


class Log:
    """What was written while it was kept."""

    def __init__(self) -> None:
        self.stream = io.StringIO()

    @property
    def text(self) -> str:
        """All of it."""
        return self.stream.getvalue()

    def lines(self, event: str) -> list[dict[str, Any]]:
        """The lines of one event; fails on a line that is no JSON object."""
        every = [json.loads(line) for line in self.text.splitlines()]
        return [line for line in every if line["event"] == event]


@contextmanager
def kept_log() -> Iterator[Log]:
    """Configure the log as the daemon does, but for its place; start servers inside."""
    log = Log()
    configure_logging()
    structlog.configure(
        logger_factory=structlog.WriteLoggerFactory(log.stream),
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
    )
    try:
        yield log
    finally:
        structlog.reset_defaults()
