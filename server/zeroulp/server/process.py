"""The daemon as a process: load, listen, serve, drain."""

from __future__ import annotations

import logging
import sys
import threading

import structlog
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from zeroulp.model.compute_team import ComputeTeam
from zeroulp.model.context import NoGrad
from zeroulp.model.errors import NonFinite, UnsupportedModel
from zeroulp.model.loading import LoadedModel, load
from zeroulp.server.engine.engine import Engine
from zeroulp.server.engine.limits import Limits
from zeroulp.server.grpc_server import GrpcServer, check_free
from zeroulp.server.stop_request import StopRequest
from zeroulp.server.token_file import TokenFile
from zeroulp.server.warmup import warm_up


class Daemon:
    """Made and run on the main thread, which waits to be stopped and does no other work."""

    def __init__(
        self, model: str, listen: str, threads: int, grace: float, admin_token: TokenFile | None
    ) -> None:
        self._model = model
        self._listen = listen
        self._threads = threads
        self._grace = grace
        self._admin_token = admin_token
        self._asked_to_stop = StopRequest()
        self._dead = threading.Event()

    def run(self) -> int:
        """Serve until a signal comes; return the exit code.

        Raises ``ModelRefused``, ``PortTaken`` or ``TokenFileRefused``.
        """
        configure_logging()
        if self._admin_token is not None:
            self._admin_token.read()  # refuses a file that could admit nobody
        check_free(self._listen)  # before minutes may go into loading and compiling
        loaded = load_with_progress(self._model)
        self._log_loaded(loaded)
        team = ComputeTeam(self._threads)
        engine = Engine(loaded.model, loaded.tokenizer, Limits(), team)
        server = GrpcServer(engine, loaded, self._listen, self._admin_token)
        engine.on_death = lambda: self._on_death(server)
        host = self._listen.rsplit(":", 1)[0]
        print(f"zeroulp listening on {host}:{server.port}", flush=True)
        try:
            warm_up(loaded.model, NoGrad(team))
        except NonFinite as error:
            server.drain(0.0)
            raise UnsupportedModel(f"{loaded.name} cannot be served: {error.message}") from error
        if not self._asked_to_stop.is_set():
            self._announce(loaded, server)
        self._asked_to_stop.wait()
        log = structlog.get_logger()
        log.info("draining", grace_seconds=self._grace)
        finished = server.drain(self._grace)
        log.info("stopped", all_calls_finished=finished)
        return 1 if self._dead.is_set() else 0

    def _log_loaded(self, loaded: LoadedModel) -> None:
        log = structlog.get_logger()
        log.info(
            "loaded",
            model=loaded.name,
            seconds=round(loaded.seconds, 3),
            file_bytes=loaded.file_bytes,
            memory_bytes=loaded.model.parameters.nbytes,
        )
        if loaded.text_refused is not None:
            log.warning("token ids only", reason=loaded.text_refused)

    def _announce(self, loaded: LoadedModel, server: GrpcServer) -> None:
        server.serving(True)
        parameters = loaded.model.parameters
        print(
            f"zeroulp ready: model {loaded.name}, {parameters.count} parameters, {parameters.nbytes} bytes, "
            f"{self._threads} threads",
            flush=True,
        )

    def _on_death(self, server: GrpcServer) -> None:
        server.serving(False)
        self._dead.set()
        self._asked_to_stop.set()


def configure_logging() -> None:
    """Write JSON lines to stderr."""
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.dict_tracebacks,
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=structlog.WriteLoggerFactory(sys.stderr),
    )


def load_with_progress(model: str) -> LoadedModel:
    """Load a model with a bar on stderr, where that is a terminal."""
    columns = (
        TextColumn("loading {task.description}"),
        BarColumn(),
        TextColumn("{task.completed}/{task.total} parameters"),
    )
    console = Console(stderr=True)
    # Without a terminal it would leave an empty line among those of the log.
    hidden = not console.is_terminal
    with Progress(*columns, TimeElapsedColumn(), console=console, transient=True, disable=hidden) as progress:
        task = progress.add_task(model, total=None)
        return load(model, lambda done, total: progress.update(task, completed=done, total=total))
