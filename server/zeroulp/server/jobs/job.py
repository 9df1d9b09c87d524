"""What every call in the engine has in common."""

from __future__ import annotations

import time
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, ClassVar

from zeroulp.model.composition.text_segment import TextSegment
from zeroulp.model.context import Observer
from zeroulp.model.errors import ParametersChanged
from zeroulp.model.kernels.arrays import F64
from zeroulp.server.engine.hall import Hall
from zeroulp.server.engine.lifecycle import Stage, moved
from zeroulp.server.engine.session_table import OpenSession
from zeroulp.server.engine.stop_signal import StopSignal


@dataclass(frozen=True, slots=True, eq=False)
class Share:
    """A job's part of a step: new rows, of which those from ``first_wanted`` on need logits.

    Or, without a segment, ``stored`` rows of H ``[n, D]`` that need logits only.
    """

    segment: TextSegment | None
    first_wanted: int = 0
    stored: F64 | None = None
    observer: Observer | None = None
    """Is shown this share's rows of every stage before the logits."""

    @property
    def rows(self) -> int:
        """Rows that go through the blocks."""
        return self.segment.rows if self.segment is not None else 0

    @property
    def wanted_rows(self) -> int:
        """Rows that need logits."""
        return len(self.stored) if self.stored is not None else self.rows - self.first_wanted

    @property
    def size(self) -> int:
        """Rows that count against a step's limit."""
        return self.rows or self.wanted_rows


class Job:
    """A call on its way. Made on the caller's thread, used by the compute thread from ``submit`` on.

    A subclass either answers in ``start`` or joins steps with ``share`` and ``take`` until it answers.
    Whatever it holds is given back in ``release``, which is called exactly once, at every end.
    """

    is_limited: ClassVar[bool] = True
    """Whether the limit on calls holds for it."""

    def __init__(self, stop: StopSignal, session_id: str | None = None) -> None:
        self.stop = stop
        self.session_id = session_id
        """The session that the call writes to; None if it opens one or needs none."""
        self.opened: OpenSession | None = None
        self.stage = Stage.QUEUED
        self._parameters_revision = 0
        """The parameters' revision when the call started; none of its steps may see another."""
        self.future: Future[Any] = Future()
        self._outcome: Any = None
        self._born = time.monotonic()
        self.queue_seconds = 0.0
        self.compute_seconds = 0.0

    def start(self, hall: Hall) -> None:
        """Validate against the present state and take what the call needs; raises a ``CallError``."""
        raise NotImplementedError

    def share(self, hall: Hall, room: int) -> Share | None:
        """Return the next rows, ``room`` at the most; None while there is nothing to compute."""
        return None

    def take(self, hall: Hall, share: Share, hidden: F64, logits: F64) -> None:
        """Receive the rows of H ``[rows, D]`` and the wanted logits ``[wanted, V]`` of its share."""
        raise NotImplementedError

    def release(self, hall: Hall) -> None:
        """Give back what was not committed."""

    @property
    def writing(self) -> OpenSession:
        """The session whose turn the call has."""
        if self.opened is None:
            raise RuntimeError("the call has no session")
        return self.opened

    @property
    def has_turn(self) -> bool:
        """Whether no earlier call writes to the same session."""
        return self.opened is None or self.opened.writers[0] is self

    def begin(self, parameters_revision: int) -> None:
        """Leave the queue."""
        self.stage = moved(self.stage, Stage.RUNNING)
        self._parameters_revision = parameters_revision
        self.queue_seconds = time.monotonic() - self._born

    def check_parameters(self, revision: int) -> None:
        """Raise ``ParametersChanged`` if the parameters have moved since the call started."""
        if revision != self._parameters_revision:
            raise ParametersChanged(
                "the model's parameters changed while the call was under way; nothing more was committed"
            )

    def answer(self, outcome: Any) -> None:
        """End well; the engine tells the outcome when the job's turn, room and place are free again."""
        self.stage = moved(self.stage, Stage.DONE)
        self.compute_seconds = time.monotonic() - self._born - self.queue_seconds
        self._outcome = outcome

    def tell(self) -> None:
        """Tell the outcome to whoever waits for it."""
        self.future.set_result(self._outcome)

    def fail(self, error: BaseException) -> None:
        """End with an error; nothing of the call was committed beyond what it has already told."""
        elapsed = time.monotonic() - self._born
        if self.stage is Stage.QUEUED:
            self.queue_seconds = elapsed
        else:
            self.compute_seconds = elapsed - self.queue_seconds
        self.stage = moved(self.stage, Stage.FAILED)
        self.future.set_exception(error)

    @property
    def ended(self) -> bool:
        """Whether the job has answered or failed."""
        return self.stage in (Stage.DONE, Stage.FAILED)
