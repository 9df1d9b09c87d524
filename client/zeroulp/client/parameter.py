"""A learned tensor of the model."""

from __future__ import annotations

from dataclasses import dataclass

from zeroulp.v1 import decoder_pb2


@dataclass(frozen=True, slots=True)
class ParameterInfo:
    """One learned tensor."""

    name: str
    shape: tuple[int, ...]
    storage: str
    """How it is kept in memory: f64, f32 or bf16; results do not show it."""


def parameter_of(message: decoder_pb2.ParameterInfo) -> ParameterInfo:
    """Return what a message holds."""
    return ParameterInfo(message.name, tuple(message.shape), message.storage)
