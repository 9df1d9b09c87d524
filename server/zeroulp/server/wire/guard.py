"""The interceptor around every call: errors become statuses, and each call leaves one log line."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from functools import partial
from typing import Any, NoReturn

import grpc
import structlog

from zeroulp.model.errors import CallCancelled
from zeroulp.server.wire.call_record import CallRecord, current_record
from zeroulp.server.wire.handlers import Streaming, Unary, rewrapped
from zeroulp.server.wire.statuses import status_of

_OWN = "/zeroulp."
_REQUEST_ID = "x-request-id"
_MAX_REQUEST_ID = 128


class Guard(grpc.ServerInterceptor):  # type: ignore[type-arg]  # generic in its stubs only
    """Wraps this project's methods; health and reflection have their own ways."""

    def __init__(self, log: structlog.stdlib.BoundLogger) -> None:
        self._log = log

    def intercept_service(self, continuation: Any, details: grpc.HandlerCallDetails) -> Any:
        """Return the method's handler with the guard around it."""
        handler = continuation(details)
        if handler is None or not details.method.startswith(_OWN):
            return handler
        method = details.method.rsplit("/", 1)[-1]
        return rewrapped(handler, partial(self._unary, method), partial(self._stream, method))

    def _unary(self, method: str, handle: Unary) -> Unary:
        def guarded(request: Any, context: grpc.ServicerContext) -> Any:
            line = _Line(self._log, method, context)
            try:
                line.open()
                answer = handle(request, context)
            except BaseException as error:
                line.abort(error)
            line.write("OK")
            return answer

        return guarded

    def _stream(self, method: str, handle: Streaming) -> Streaming:
        def guarded(request: Any, context: grpc.ServicerContext) -> Iterator[Any]:
            line = _Line(self._log, method, context)
            try:
                line.open()
                yield from handle(request, context)
            except GeneratorExit:  # the reader is gone; nobody can be told a status
                line.write("CANCELLED")
                raise
            except BaseException as error:
                line.abort(error)
            line.write("OK")

        return guarded


class _Line:
    """The log line of one call."""

    def __init__(self, log: structlog.stdlib.BoundLogger, method: str, context: grpc.ServicerContext) -> None:
        given = dict(context.invocation_metadata()).get(_REQUEST_ID)
        self._request_id = (
            given[:_MAX_REQUEST_ID] if isinstance(given, str) and given else secrets.token_hex(8)
        )
        self._log = log.bind(method=method, request_id=self._request_id, peer=context.peer())
        self._context = context
        self._started = time.monotonic()
        self._record = CallRecord()
        current_record.set(self._record)

    def open(self) -> None:
        """Tell the caller the request id; raises if nobody is there any more."""
        if not self._context.is_active():
            raise CallCancelled("the caller cancelled before the call was started")
        self._context.send_initial_metadata(((_REQUEST_ID, self._request_id),))

    def write(self, status: str, **more: object) -> None:
        milliseconds = round((time.monotonic() - self._started) * 1e3, 3)
        self._log.info("call", status=status, ms=milliseconds, **self._record.facts(), **more)

    def abort(self, error: BaseException) -> NoReturn:
        status, reason = status_of(error)
        if reason.startswith("INTERNAL"):
            self._log.error("internal error", reason=reason, exc_info=error)
        self.write(status.code.name, reason=reason)
        self._context.abort_with_status(status)
        raise AssertionError("abort_with_status returned")
