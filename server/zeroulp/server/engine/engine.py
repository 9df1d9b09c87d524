"""The engine: calls in, steps over the model, outcomes out."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TypeVar

import numpy as np

from zeroulp.model.composition.language_model import LanguageModel
from zeroulp.model.compute_team import ComputeTeam
from zeroulp.model.context import NoGrad
from zeroulp.model.errors import CallError, Draining, NonFinite, QueueFull
from zeroulp.model.text import Tokenizer
from zeroulp.server.engine.hall import new_hall
from zeroulp.server.engine.limits import Limits
from zeroulp.server.engine.step import Step, StepBroken
from zeroulp.server.jobs.job import Job, Share

Result = TypeVar("Result")

_LOOK_SECONDS = 0.1
"""How long the compute thread sleeps at the most before it looks at deadlines again."""
_QUIET_SECONDS = 1.0
"""After so long without calls the books are checked, once, where the check delays nobody."""


class Engine:
    """One compute thread owns the model, the pool, the sessions and every submitted job.

    ``submit``, ``wake``, ``drain`` and ``stop`` may be called by any thread; under ``_changed`` they
    touch only the inbox, the count of calls and the flags. Everything else belongs to the compute thread.
    """

    def __init__(
        self, model: LanguageModel, tokenizer: Tokenizer | None, limits: Limits, team: ComputeTeam
    ) -> None:
        self.limits = limits
        self.on_death: Callable[[], None] | None = None
        """Told on the compute thread when it ends with an error."""
        self._hall = new_hall(model, tokenizer, NoGrad(team), limits)
        self._team = team
        self._changed = threading.Condition()
        self._inbox: deque[Job] = deque()
        self._calls = 0
        self._draining = False
        self._stopping = False
        self._news = False
        """Something happened that the compute thread has not seen."""
        self._busy = False
        """The last step had rows, so the next one may have too."""
        self._checked = False
        """The books have been checked since the last call."""
        self._waiting: list[Job] = []
        self._running: deque[Job] = deque()
        self._thread = threading.Thread(target=self._run, name="compute", daemon=True)
        self._thread.start()

    @property
    def alive(self) -> bool:
        """Whether the compute thread runs."""
        return self._thread.is_alive()

    # -- any thread ----------------------------------------------------------------------------

    def submit(self, job: Job) -> None:
        """Queue a call; raises ``Draining`` or ``QueueFull``. Its future tells the outcome."""
        with self._changed:
            if self._draining or not self.alive:
                raise Draining("the server is stopping; try another one, or again later")
            if job.is_limited and self._calls >= self.limits.max_calls:
                raise QueueFull(
                    f"{self._calls} calls are waiting or running, which is the limit",
                    max_calls=self.limits.max_calls,
                )
            self._calls += 1
            self._inbox.append(job)
            self._news = True
            self._changed.notify_all()

    def wake(self) -> None:
        """Make the compute thread look at its jobs: one was cancelled, or has room again."""
        with self._changed:
            self._news = True
            self._changed.notify_all()

    def drain(self, seconds: float) -> bool:
        """Refuse new calls and wait for those in flight; tell whether all ended in time."""
        with self._changed:
            self._draining = True
            return self._changed.wait_for(lambda: not self._calls or not self.alive, seconds)

    def stop(self) -> None:
        """End the compute thread; calls that are still in flight fail with ``Draining``."""
        with self._changed:
            self._draining = self._stopping = self._news = True
            self._changed.notify_all()
        self._thread.join()

    # -- the compute thread --------------------------------------------------------------------

    def _run(self) -> None:
        error: BaseException = Draining("the server stopped before the call was committed")
        try:
            while self._collect():
                self._step()
        except BaseException as failure:
            error = failure
            raise
        finally:
            self._leave(error)

    def _leave(self, error: BaseException) -> None:
        with self._changed:
            self._draining = True
            self._waiting.extend(self._inbox)
            self._inbox.clear()
        for job in [*self._waiting, *self._running]:
            job.fail(error)
        with self._changed:
            self._calls = 0
            self._changed.notify_all()
        if not self._stopping and self.on_death is not None:
            self.on_death()

    def _collect(self) -> bool:
        """Take in new jobs, wait while there is nothing to do; return False to end."""
        idle = not self._waiting and not self._running
        with self._changed:
            if not self._busy and not self._news:
                quiet = None if self._checked else _QUIET_SECONDS
                self._changed.wait_for(lambda: self._news, quiet if idle else _LOOK_SECONDS)
            undisturbed = idle and not self._news
            self._news = False
            if self._stopping:
                return False
            arrived = list(self._inbox)
            self._inbox.clear()
        if undisturbed:
            self._hall.check_integrity()
        self._checked = undisturbed
        for job in arrived:
            self._admit(job)
        return True

    def _admit(self, job: Job) -> None:
        """Give a job its place among the waiting."""
        try:
            if job.session_id is not None:
                job.opened = self._hall.sessions.find(job.session_id)
                self._hall.sessions.queue_writer(job.opened, job)
            self._waiting.append(job)
        except BaseException as error:
            job.opened = None
            self._waiting.append(job)
            self._end(job, error)

    def _step(self) -> None:
        """Drop what is not wanted, start what has its turn, and compute one step."""
        for job in [*self._waiting, *self._running]:
            self._guarded(job, job.stop.check)
        for job in list(self._waiting):
            if job.has_turn:
                self._start(job)
        self._busy = False
        if self._running:
            with self._team.awake():
                step = self._planned()
                if step is not None:
                    self._busy = True
                    self._compute(step)

    def _start(self, job: Job) -> None:
        self._waiting.remove(job)
        self._running.append(job)
        job.begin(self._hall.model.parameters.revision)
        self._guarded(job, partial(self._enter, job))

    def _enter(self, job: Job) -> None:
        if job.session_id is not None:
            self._hall.sessions.find(job.session_id)  # an earlier call may have closed it
        job.start(self._hall)

    def _planned(self) -> Step | None:
        """Ask every running job for rows.

        Each may bring its part of the room, so that none waits for a long one.
        """
        alone = len(self._running) == 1
        room = self.limits.step_rows if alone else self.limits.shared_step_rows
        shares: list[tuple[Job, Share]] = []
        running = list(self._running)[:room]
        revision = self._hall.model.parameters.revision
        for index, job in enumerate(running):
            fair = room // (len(running) - index)
            self._guarded(job, partial(job.check_parameters, revision))
            share = self._guarded(job, partial(job.share, self._hall, fair))
            if share is not None:
                shares.append((job, share))
                room -= share.size
        self._running.rotate(-1)
        return Step(shares) if shares else None

    def _compute(self, step: Step) -> None:
        model, context = self._hall.model, self._hall.context
        D, V = model.configuration.model_width, model.configuration.vocabulary_size
        hidden, logits = np.empty((0, D)), np.empty((0, V))
        watched = context.observed_by(step.show) if step.observed else context
        try:
            if step.segments:
                hidden = model.forward(watched.checked_by(step.check), step.segments)
        except NonFinite as error:
            self._blame(step, step.owner_of_row(error.row), error)
            return
        except StepBroken as broken:
            self._blame(step, broken.job, broken.error)
            return
        try:
            wanted = step.head_rows(hidden)
            if len(wanted):
                logits = model.logits(context, wanted)
        except NonFinite as error:
            self._blame(step, step.owner_of_head_row(error.row), error)
            return
        for job, share, rows, own_logits in step.results(hidden, logits):
            self._guarded(job, partial(job.take, self._hall, share, rows, own_logits))

    def _blame(self, step: Step, culprit: Job, error: CallError) -> None:
        """Fail one job; the others' rows of this step are computed again without it, to the same bits."""
        for job, share in step.shares:
            if job is not culprit and share.segment is not None:
                share.segment.transaction.discard(share.segment.start)
        self._end(culprit, error)

    def _guarded(self, job: Job, action: Callable[[], Result]) -> Result | None:
        """Run a job's code; an error ends that job and no other."""
        if job.ended:
            return None
        try:
            result = action()
        except Exception as error:
            self._end(job, error)
            return None
        if job.ended:
            self._end(job, None)
        return result

    def _end(self, job: Job, error: BaseException | None) -> None:
        """Let a job's room, turn and place go, then tell its outcome."""
        try:
            job.release(self._hall)
        finally:
            if job in self._waiting:
                self._waiting.remove(job)
            if job in self._running:
                self._running.remove(job)
            if job.opened is not None and job in job.opened.writers:
                job.opened.writers.remove(job)
            with self._changed:
                self._calls -= 1
                self._news = True
                self._changed.notify_all()
            # Told last: whoever hears of it finds the turn, the room and the place free.
            if error is None:
                job.tell()
            elif not job.ended:
                job.fail(error)
