"""The standard health service, spoken without its package, which the base install has not."""

from __future__ import annotations

from zeroulp.client.wire import Wire

CHECK = "/grpc.health.v1.Health/Check"
# HealthCheckRequest with an empty service name, which stands for the whole server.
WHOLE_SERVER = b""
# HealthCheckResponse with field 1 (status), a varint, equal to 1 (SERVING).
SERVING = b"\x08\x01"


def is_serving(wire: Wire) -> bool:
    """Return whether the server says SERVING; raises ConnectionFailed when there is none."""
    check = wire.channel.unary_unary(CHECK, request_serializer=None, response_deserializer=None)
    return bool(wire.call(check, WHOLE_SERVER) == SERVING)
