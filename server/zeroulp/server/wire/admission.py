"""The interceptor in front of the admin service: no method of it runs without the token."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent import futures
from typing import Any, Final, TypeVar

import grpc
import structlog

from zeroulp.model.errors import Unauthenticated
from zeroulp.server.token_file import TokenFile, TokenFileRefused
from zeroulp.server.wire.handlers import POOL, Streaming, Unary, rewrapped
from zeroulp.v1 import admin_pb2

_METHODS: Final = f"/{admin_pb2.DESCRIPTOR.services_by_name['AdminService'].full_name}/"
_HEADER: Final = "authorization"
_SCHEME: Final = "bearer"
_THREADS: Final = 2
"""One for the call that is at work, one to refuse others meanwhile."""

Method = TypeVar("Method")


class Admission(grpc.ServerInterceptor):  # type: ignore[type-arg]  # generic in its stubs only
    """Stands inside the guard, which turns the refusal into a status and a log line.

    Admin methods run on threads of their own, so that calls that hold all of the wire's do not shut them out.
    """

    def __init__(self, token: TokenFile) -> None:
        self._token = token
        self._pool = futures.ThreadPoolExecutor(_THREADS, "admin")

    def intercept_service(self, continuation: Any, details: grpc.HandlerCallDetails) -> Any:
        """Return the method's handler, with the question for the token before it where it is an admin's."""
        handler = continuation(details)
        if handler is None or not details.method.startswith(_METHODS):
            return handler
        return rewrapped(handler, self._unary, self._stream)

    def _unary(self, handle: Unary) -> Unary:
        def admitted(request: Any, context: grpc.ServicerContext) -> Any:
            self._check(context)
            return handle(request, context)

        return self._pooled(admitted)

    def _stream(self, handle: Streaming) -> Streaming:
        def admitted(request: Any, context: grpc.ServicerContext) -> Iterator[Any]:
            self._check(context)
            yield from handle(request, context)

        return self._pooled(admitted)

    def _pooled(self, method: Method) -> Method:
        setattr(method, POOL, self._pool)
        return method

    def _check(self, context: grpc.ServicerContext) -> None:
        """Raise ``Unauthenticated``, in the same words whatever is wrong, unless the call has the token."""
        given = [value for key, value in context.invocation_metadata() if key == _HEADER]
        if len(given) == 1 and isinstance(given[0], str) and self._admits(given[0]):
            return
        raise Unauthenticated(
            "this call needs the daemon's admin token, once, as metadata 'authorization: Bearer TOKEN'"
        )

    def _admits(self, header: str) -> bool:
        scheme, _, token = header.partition(" ")
        try:
            return self._token.matches(token.strip()) and scheme.lower() == _SCHEME
        except TokenFileRefused as error:
            structlog.get_logger().error("nobody is admitted", reason=str(error))
            return False
