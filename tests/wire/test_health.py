"""Health beside calls: a full server is no sick one."""

from __future__ import annotations

import threading
from contextlib import ExitStack

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from wire.calls import GREEDY, ids, prefill, streaming
from wire.serving import Serving, serving
from zeroulp.client import Client
from zeroulp.model.loading import load
from zeroulp.server.engine.limits import Limits
from zeroulp.server.grpc_server import SERVICE, SPARE_THREADS
from zeroulp.v1 import decoder_pb2 as pb

SERVING = health_pb2.HealthCheckResponse.SERVING
CALLS = Limits().max_calls
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


def _status(channel: grpc.Channel, service: str = "", seconds: float = 5.0) -> int:
    stub = health_pb2_grpc.HealthStub(channel)
    answer = stub.Check(health_pb2.HealthCheckRequest(service=service), timeout=seconds)
    return int(answer.status)


def test_the_server_and_the_service_are_serving(boundary: Serving) -> None:
    assert _status(boundary.channel) == _status(boundary.channel, SERVICE) == SERVING
    with Client(boundary.target) as client:
        assert client.is_serving()


def test_watchers_are_told_of_a_change(boundary: Serving) -> None:
    stub = health_pb2_grpc.HealthStub(boundary.channel)
    watch = stub.Watch(health_pb2.HealthCheckRequest(service=SERVICE))
    assert next(watch).status == SERVING
    boundary.server.serving(False)
    assert next(watch).status == NOT_SERVING
    boundary.server.serving(True)
    assert next(watch).status == SERVING
    watch.cancel()


def test_fifty_watchers_take_no_worker(boundary: Serving) -> None:
    with ExitStack() as stack:
        watches = []
        for _ in range(CALLS + SPARE_THREADS + 1):
            watch = health_pb2_grpc.HealthStub(boundary.channel).Watch(health_pb2.HealthCheckRequest())
            stack.callback(watch.cancel)
            assert next(watch).status == SERVING
            watches.append(watch)
        request = pb.PrefillRequest(token_ids=ids(0, 99))
        assert boundary.stub.Prefill(request, timeout=5).position == 2


def test_a_full_server_answers_probes() -> None:
    """As many streams that nobody reads as there may be calls; one more is told that the queue is full."""
    with serving(load("glass-default"), Limits(cache_bytes=1024**3)) as served, ExitStack() as stack:
        request = pb.GenerateRequest(
            token_ids=ids(0),
            sampling=GREEDY,
            logits_scope=pb.LOGITS_SCOPE_LAST,
            close_session=True,
            ignore_end_tokens=True,
        )
        for _ in range(CALLS):
            call = streaming(served.stub, request)
            stack.callback(call.cancel)
            assert next(call).HasField("started")
        assert _status(served.channel) == SERVING
        assert served.engine._calls == CALLS, "some streams were over"
        with pytest.raises(grpc.RpcError) as refused:
            served.stub.Prefill(pb.PrefillRequest(token_ids=ids(0)), timeout=5)
        assert refused.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED


def test_a_dead_engine_is_not_healthy(boundary: Serving) -> None:
    """What the process does at the engine's death, without ending this process."""
    with serving(boundary.loaded) as served:
        died = threading.Event()

        def on_death() -> None:
            served.server.serving(False)
            died.set()

        served.engine.on_death = on_death
        served.engine._leave(RuntimeError("as if it had died"))
        assert died.wait(5)
        assert _status(served.channel) == _status(served.channel, SERVICE) == NOT_SERVING
    assert prefill(boundary.stub, [0]).position == 1
