"""What a reload of the daemon's model did."""

from __future__ import annotations

from dataclasses import dataclass

from zeroulp.v1 import admin_pb2


@dataclass(frozen=True, slots=True)
class ReloadedModel:
    """What ReloadModel tells; sessions that were opened before it are stale."""

    name: str
    """The model's name from now on."""
    parameters_digest_before: str
    parameters_digest_after: str
    seconds: float
    """From the start of the call until the new values were in place."""
    file_bytes: int
    """0 for a built-in model."""
    parameter_bytes: int


def reloaded_model_of(message: admin_pb2.ReloadModelResponse) -> ReloadedModel:
    """Return what an answer holds."""
    return ReloadedModel(
        name=message.name,
        parameters_digest_before=message.parameters_digest_before,
        parameters_digest_after=message.parameters_digest_after,
        seconds=message.seconds,
        file_bytes=message.file_bytes,
        parameter_bytes=message.parameter_bytes,
    )
