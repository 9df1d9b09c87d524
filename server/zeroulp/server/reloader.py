"""Other weights for the running model, without a restart."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import structlog

from zeroulp.model.compute_team import ComputeTeam
from zeroulp.model.context import NoGrad
from zeroulp.model.errors import InvalidArgument, ModelRefused, NonFinite, ReloadRunning, UnsupportedModel
from zeroulp.model.library.resolve import resolve
from zeroulp.model.loading import LoadedModel, Progress, load
from zeroulp.model.replacement import Replacement
from zeroulp.server.engine.engine import Engine
from zeroulp.server.engine.stop_signal import StopSignal
from zeroulp.server.jobs.swap import SwapJob
from zeroulp.server.warmup import warm_up
from zeroulp.server.wire.model_card import ModelCard

_LINES_OF_PROGRESS = 4
_MOST_CHARACTERS = 1000
"""A refusal repeats a path, and the headers that carry it are bounded."""


@dataclass(frozen=True, slots=True)
class Reloaded:
    """What a reload did; ``seconds`` from its start until the new values were in place."""

    name: str
    digest_before: str
    digest_after: str
    seconds: float
    file_bytes: int
    parameter_bytes: int


class Reloader:
    """Loads on the thread of the call that asks, one call at a time; only the swap takes the compute thread.

    ``_served`` stays what the daemon started with: its model is the one that is served, with the values of
    ``_source``. Both are used by the call that holds ``_alone``. Until the swap, the old and the new values
    are in memory beside each other.
    """

    def __init__(self, engine: Engine, loaded: LoadedModel, card: ModelCard) -> None:
        self._engine = engine
        self._served = loaded
        self._card = card
        self._source = loaded.source
        self._alone = threading.Lock()

    def reload(self, path: str, stop: StopSignal) -> Reloaded:
        """Serve the values of ``path``, or of the present source again where that is empty.

        Raises ``InvalidArgument`` for a model that cannot take the served one's place, ``ReloadRunning``,
        and what ``stop`` and the engine raise; nothing has changed then.
        """
        if not self._alone.acquire(blocking=False):
            raise ReloadRunning("another reload is running; one at a time")
        try:
            return self._reload(path, stop)
        finally:
            self._alone.release()

    def _reload(self, path: str, stop: StopSignal) -> Reloaded:
        started = time.monotonic()
        source = path or self._source
        try:
            new = load(source, _logged_progress(stop))
            replacement = Replacement(self._served.model, new.model)
            _check_text(self._served, new)
            self._warm_up(new)
        except ModelRefused as error:
            raise InvalidArgument(_told(error, source, path), field="path") from error
        before, renewed = self._card.response(), self._card.renewed(new)
        self._swap(stop, SwapJob(stop, replacement, partial(self._card.replace, renewed)))
        self._source = source
        reloaded = Reloaded(
            new.name,
            before.parameters_digest,
            renewed.parameters_digest,
            time.monotonic() - started,
            new.file_bytes,
            renewed.parameter_bytes,
        )
        _log(reloaded)
        return reloaded

    def _warm_up(self, new: LoadedModel) -> None:
        """Compile what the new values' storage needs, and see that one token can be computed with them."""
        try:
            warm_up(new.model, NoGrad(ComputeTeam()))
        except NonFinite as error:
            raise UnsupportedModel(f"{new.name} cannot be served: {error.message}") from error

    def _swap(self, stop: StopSignal, job: SwapJob) -> None:
        stop.on_cancel = self._engine.wake
        self._engine.submit(job)
        job.future.result()


def _check_text(served: LoadedModel, new: LoadedModel) -> None:
    """Refuse another text side; a file that says nothing of text leaves the served one as it is."""
    if new.text_digest not in ("", served.text_digest):
        raise UnsupportedModel(
            f"its tokenizer ({_kind(new)}) or chat template is not the served model's ({_kind(served)})"
        )


def _kind(loaded: LoadedModel) -> str:
    return loaded.tokenizer.kind if loaded.tokenizer is not None else "none that is served"


def _told(error: ModelRefused, source: str, path: str) -> str:
    """Return the error's words for the caller, who is told no path but the one that was sent."""
    shown = path or "the served model's source"
    message = str(error)
    for known in filter(None, (_file_of(source), source)):
        message = message.replace(repr(known), shown if not path else repr(path)).replace(known, shown)
    return message[:_MOST_CHARACTERS]


def _file_of(source: str) -> str:
    try:
        found = resolve(source)
    except ModelRefused:
        return source
    return os.fspath(found) if isinstance(found, Path) else source


def _logged_progress(stop: StopSignal) -> Progress:
    """Return what logs a few lines while a model is loaded, and breaks off when nobody waits for it."""
    log = structlog.get_logger()

    def progress(done: int, total: int) -> None:
        stop.check()
        if done * _LINES_OF_PROGRESS // total > (done - 1) * _LINES_OF_PROGRESS // total:
            log.info("reloading", parameters=done, of=total)

    return progress


def _log(reloaded: Reloaded) -> None:
    structlog.get_logger().info(
        "reloaded",
        model=reloaded.name,
        digest_before=reloaded.digest_before,
        digest_after=reloaded.digest_after,
        seconds=round(reloaded.seconds, 3),
        file_bytes=reloaded.file_bytes,
        memory_bytes=reloaded.parameter_bytes,
    )
