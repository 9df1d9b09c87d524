"""What the log line of a call tells, filled in while the call is handled."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass

from zeroulp.model.work import Work
from zeroulp.server.jobs.job import Job


@dataclass(slots=True)
class CallRecord:
    """One call's facts; no prompt text and no token ids."""

    session: str | None = None
    fork: str | None = None
    """The session that was opened as a copy of ``session``."""
    tokens: int | None = None
    work: Work | None = None
    job: Job | None = None

    def facts(self) -> dict[str, object]:
        """Return what is known, as the log line has it."""
        facts: dict[str, object] = {}
        if self.session is not None:
            facts["session"] = self.session
        if self.fork is not None:
            facts["fork"] = self.fork
        if self.tokens is not None:
            facts["tokens"] = self.tokens
        if self.work is not None:
            facts["cache_appends"] = self.work.cache_appends
            facts["attention_score_values"] = self.work.attention_score_values
            facts["reused_tokens"] = self.work.reused_tokens
        if self.job is not None:
            facts["queue_ms"] = round(self.job.queue_seconds * 1e3, 3)
            facts["compute_ms"] = round(self.job.compute_seconds * 1e3, 3)
        return facts


current_record: ContextVar[CallRecord] = ContextVar("current_record")
