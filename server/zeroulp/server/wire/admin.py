"""The admin servicer: what acts on the daemon, from message to plain call to message."""

from __future__ import annotations

import grpc

from zeroulp.model.errors import CallCancelled
from zeroulp.server.engine.stop_signal import StopSignal
from zeroulp.server.reloader import Reloader
from zeroulp.v1 import admin_pb2 as pb
from zeroulp.v1 import admin_pb2_grpc as pb_grpc


class AdminService(pb_grpc.AdminServiceServicer):
    """Whoever calls a method has been admitted."""

    def __init__(self, reloader: Reloader) -> None:
        self._reloader = reloader

    def ReloadModel(
        self, request: pb.ReloadModelRequest, context: grpc.ServicerContext
    ) -> pb.ReloadModelResponse:
        """Serve the values of another file."""
        stop = StopSignal(context.time_remaining())
        if not context.add_callback(stop.cancel):
            raise CallCancelled("the caller cancelled before the call was started")
        done = self._reloader.reload(request.path, stop)
        return pb.ReloadModelResponse(
            name=done.name,
            parameters_digest_before=done.digest_before,
            parameters_digest_after=done.digest_after,
            seconds=done.seconds,
            file_bytes=done.file_bytes,
            parameter_bytes=done.parameter_bytes,
        )
