"""The gRPC server around an engine: services, health and reflection on one port."""

from __future__ import annotations

import socket
import time
from concurrent import futures

import grpc
import structlog
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from zeroulp.model.loading import LoadedModel
from zeroulp.server.engine.engine import Engine
from zeroulp.server.health import Health
from zeroulp.server.reloader import Reloader
from zeroulp.server.token_file import TokenFile
from zeroulp.server.wire.admin import AdminService
from zeroulp.server.wire.admission import Admission
from zeroulp.server.wire.guard import Guard
from zeroulp.server.wire.model_card import ModelCard
from zeroulp.server.wire.service import DecoderService
from zeroulp.v1 import admin_pb2, admin_pb2_grpc, decoder_pb2, decoder_pb2_grpc

SERVICE = decoder_pb2.DESCRIPTOR.services_by_name["DecoderService"].full_name
ADMIN_SERVICE = admin_pb2.DESCRIPTOR.services_by_name["AdminService"].full_name

SPARE_THREADS = 32
"""Wire threads beyond the engine's limit on calls: they tell the calls above it that the queue is full."""

_LAST_ANSWERS_SECONDS = 2.0

MAX_REQUEST_BYTES = 16 * 1024 * 1024
"""A request is ids and text; a whole long context of ids takes a few hundred kilobytes."""


class PortTaken(Exception):
    """The address cannot be listened on."""


def check_free(listen: str) -> None:
    """Raise ``PortTaken`` if the address cannot be listened on now.

    gRPC's own check comes only after the model is loaded, and writes lines of its own.
    """
    host, _, port = listen.rpartition(":")
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host.strip("[]"), int(port), type=socket.SOCK_STREAM
        )[0]
        with socket.socket(family, kind, protocol) as probe:
            # as gRPC does: the last server's closed connections do not hold the port
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
            probe.listen(1)
    except OSError as error:
        raise PortTaken(f"cannot listen on {listen}: {error.strerror or error}") from error


class GrpcServer:
    """Starts NOT_SERVING; ``serving`` says when it is warm. Without an admin token, no admin service."""

    def __init__(
        self, engine: Engine, loaded: LoadedModel, listen: str, admin_token: TokenFile | None = None
    ) -> None:
        self._engine = engine
        self._health = Health()
        self._server = grpc.server(
            futures.ThreadPoolExecutor(engine.limits.max_calls + SPARE_THREADS, thread_name_prefix="wire"),
            # The first is the outermost, and sees what the others refuse.
            interceptors=[
                Guard(structlog.get_logger()),
                *([Admission(admin_token)] if admin_token is not None else []),
            ],
            options=[
                ("grpc.so_reuseport", 0),  # a taken port is an error, not a second server
                ("grpc.max_receive_message_length", MAX_REQUEST_BYTES),
                ("grpc.max_send_message_length", engine.limits.max_message_bytes),
                # clients may ping every 10 s, also between calls
                ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
                ("grpc.http2.min_recv_ping_interval_without_data_ms", 5_000),
                ("grpc.keepalive_permit_without_calls", 1),
            ],
        )
        card = ModelCard(loaded, engine.limits)
        decoder_pb2_grpc.add_DecoderServiceServicer_to_server(
            DecoderService(engine, loaded, card), self._server
        )
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        names = [SERVICE, health.SERVICE_NAME, reflection.SERVICE_NAME]
        if admin_token is not None:
            admin = AdminService(Reloader(engine, loaded, card))
            admin_pb2_grpc.add_AdminServiceServicer_to_server(admin, self._server)
            names.append(ADMIN_SERVICE)
        reflection.enable_server_reflection(names, self._server)
        self.serving(False)
        try:
            self.port = self._server.add_insecure_port(listen)
        except RuntimeError as error:
            raise PortTaken(
                f"cannot listen on {listen}: the address is taken or not this machine's"
            ) from error
        self._server.start()

    def serving(self, is_serving: bool) -> None:
        """Tell health watchers whether calls are taken."""
        status = health_pb2.HealthCheckResponse
        for service in ("", SERVICE):
            self._health.set(service, status.SERVING if is_serving else status.NOT_SERVING)

    def drain(self, seconds: float) -> bool:
        """Refuse new calls, finish those in flight, stop; tell whether all ended in time."""
        self.serving(False)
        end = time.monotonic() + seconds
        finished = self._engine.drain(seconds)
        self._engine.stop()
        # Outcomes are known by now; this lets the last answers out, also to a slow reader.
        self._server.stop(grace=max(_LAST_ANSWERS_SECONDS, end - time.monotonic())).wait()
        return finished
