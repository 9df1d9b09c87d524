"""A real server inside the test's process, with its engine at hand. Knows no test."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import grpc

from zeroulp.model.compute_team import ComputeTeam
from zeroulp.model.context import NoGrad
from zeroulp.model.errors import NonFinite
from zeroulp.model.full_forward import full_forward
from zeroulp.model.loading import LoadedModel
from zeroulp.server.engine.engine import Engine
from zeroulp.server.engine.hall import Hall
from zeroulp.server.engine.limits import Limits
from zeroulp.server.engine.stop_signal import StopSignal
from zeroulp.server.grpc_server import GrpcServer
from zeroulp.server.jobs.job import Job
from zeroulp.server.token_file import TokenFile
from zeroulp.server.warmup import warm_up
from zeroulp.v1 import decoder_pb2 as pb
from zeroulp.v1.decoder_pb2_grpc import DecoderServiceStub

CHANNEL_OPTIONS = (("grpc.max_receive_message_length", -1), ("grpc.enable_http_proxy", 0))
CACHE_BYTES = 64 * 1024**2
PATIENCE = 30.0
"""Seconds after which a wait is a failure; nothing here takes a tenth of it."""


@dataclass(frozen=True, eq=False)
class Serving:
    """One server, its parts, and a stub for it."""

    loaded: LoadedModel
    engine: Engine
    server: GrpcServer
    target: str
    channel: grpc.Channel
    stub: DecoderServiceStub
    context: NoGrad

    @property
    def hall(self) -> Hall:
        """What the compute thread owns: to be looked at while it is idle."""
        return self.engine._hall

    def full_rows(self, ids: list[int]) -> list[bytes]:
        """Return each row of the full forward's logits."""
        return [row.tobytes() for row in full_forward(self.loaded.model, self.context, ids)]

    def wait_until_idle(self) -> None:
        """Wait until no call is in the engine."""
        until(lambda: not self.engine._calls)

    def check_blocks(self) -> None:
        """Fail unless sessions and blocks agree, and nobody holds a turn or a place."""
        self.wait_until_idle()
        self.hall.check_integrity()
        assert not any(opened.writers for opened in self.hall.sessions)
        assert self.hall.sessions._places == 0
        assert self.hall.trace_room.used == 0

    def close_sessions(self) -> None:
        """Close every session, so that the next one shares nothing."""
        self.wait_until_idle()
        for opened in list(self.hall.sessions):
            self.stub.CloseSession(pb.CloseSessionRequest(session_id=opened.id))
        self.wait_until_idle()
        assert self.hall.pool.free == self.hall.pool.capacity

    def cached(self, session_id: str) -> list[bytes]:
        """Return an open session's rows of keys, values and H."""
        self.wait_until_idle()
        cache = self.hall.sessions.find(session_id).session.cache
        every = [rows for layer in cache.layers for rows in layer.rows(0, cache.length)]
        return [rows.tobytes() for rows in (*every, cache.hidden(0, cache.length))]

    @property
    def footprint(self) -> tuple[int, int]:
        """Open sessions and free blocks, when nothing runs."""
        self.check_blocks()
        return len(self.hall.sessions), self.hall.pool.free

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Keep the compute thread busy: calls that arrive meanwhile are queued, for certain."""
        pause = _Pause()
        self.engine.submit(pause)
        assert pause.entered.wait(PATIENCE)
        try:
            yield
        finally:
            pause.over.set()
            pause.future.result(PATIENCE)

    def wait_for_cancels(self, count: int) -> None:
        """Wait until ``count`` of the calls that a pause holds back know that they were cancelled."""
        until(lambda: sum(job.stop._cancelled.is_set() for job in list(self.engine._inbox)) >= count)

    def wait_for_calls(self, count: int) -> None:
        """Wait until ``count`` calls are in the engine, a pause included."""
        until(lambda: self.engine._calls >= count)


class _Pause(Job):
    def __init__(self) -> None:
        super().__init__(StopSignal())
        self.entered = threading.Event()
        self.over = threading.Event()

    def start(self, hall: Hall) -> None:
        self.entered.set()
        self.over.wait(PATIENCE)
        self.answer(None)


@contextmanager
def serving(
    loaded: LoadedModel, limits: Limits | None = None, admin_token: TokenFile | None = None
) -> Iterator[Serving]:
    """Serve a model on a free port while the block lasts."""
    team = ComputeTeam(2)
    engine = Engine(loaded.model, loaded.tokenizer, limits or Limits(cache_bytes=CACHE_BYTES), team)
    server = GrpcServer(engine, loaded, "127.0.0.1:0", admin_token)
    with suppress(NonFinite):  # a test may have spoilt the weights on purpose
        warm_up(loaded.model, NoGrad(team))
    server.serving(True)
    target = f"127.0.0.1:{server.port}"
    with grpc.insecure_channel(target, options=CHANNEL_OPTIONS) as channel:
        stub = DecoderServiceStub(channel)
        try:
            yield Serving(loaded, engine, server, target, channel, stub, NoGrad(team))
        finally:
            server.drain(0.0)


def until(holds: object, seconds: float = PATIENCE) -> None:
    """Wait until the callable ``holds`` returns something true."""
    assert callable(holds)
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.002)
