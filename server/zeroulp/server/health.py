"""The standard health service on a thread of its own."""

from __future__ import annotations

from concurrent import futures

import grpc
from grpc_health.v1 import health, health_pb2


class Health(health.HealthServicer):
    """Answers probes while calls hold every thread of the wire. Watchers hold no thread at all."""

    def __init__(self) -> None:
        super().__init__(experimental_non_blocking=True)

        def check(
            request: health_pb2.HealthCheckRequest, context: grpc.ServicerContext
        ) -> health_pb2.HealthCheckResponse:
            return health.HealthServicer.Check(self, request, context)

        # gRPC looks for this attribute of a handler, and takes the server's own pool without it
        check.experimental_thread_pool = futures.ThreadPoolExecutor(1, "health")  # type: ignore[attr-defined]
        self.Check = check  # type: ignore[method-assign]
