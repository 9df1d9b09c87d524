"""Putting something around every method of a service, whatever the method is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import grpc

Unary = Callable[[Any, grpc.ServicerContext], Any]
Streaming = Callable[[Any, grpc.ServicerContext], Iterator[Any]]

# gRPC looks for this attribute of a method, and takes the server's own pool without it
POOL = "experimental_thread_pool"


def rewrapped(handler: Any, unary: Callable[[Unary], Unary], stream: Callable[[Streaming], Streaming]) -> Any:
    """Return a handler whose method is ``unary`` or ``stream`` of the given one's, on the same threads."""
    if handler.response_streaming:
        inner, outer = handler.unary_stream, stream(handler.unary_stream)
        make: Callable[..., Any] = grpc.unary_stream_rpc_method_handler
    else:
        inner, outer = handler.unary_unary, unary(handler.unary_unary)
        make = grpc.unary_unary_rpc_method_handler
    if hasattr(inner, POOL):
        setattr(outer, POOL, getattr(inner, POOL))
    return make(outer, handler.request_deserializer, handler.response_serializer)
