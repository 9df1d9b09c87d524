"""How tokens are drawn."""

from __future__ import annotations

from dataclasses import dataclass, fields

from zeroulp.v1 import decoder_pb2


@dataclass(frozen=True, slots=True)
class Sampling:
    """Parameters of the draw; None leaves one to the server, whose defaults change nothing.

    A token is a function of the logits, these, the seed and its position. Zero is a value, not a
    default: temperature 0 is greedy.
    """

    temperature: float | None = None
    """0 takes the most likely entry, the lowest id among equals; None means 1."""
    top_k: int | None = None
    """Keeps the k most likely; 0 or None keeps all."""
    top_p: float | None = None
    """Keeps the fewest most likely whose probabilities sum to at least this, in (0, 1]."""
    min_p: float | None = None
    """Keeps entries at least this share as likely as the most likely one, in [0, 1]."""
    repetition_penalty: float | None = None
    """Divides positive and multiplies other logits of ids that occurred; 1 changes nothing."""
    presence_penalty: float | None = None
    """Subtracted once from ids that were generated; 0 changes nothing."""
    frequency_penalty: float | None = None
    """Subtracted per occurrence among the generated tokens; 0 changes nothing."""
    seed: int | None = None
    """Below 2**64; None lets the server draw one, which the generation then tells."""


GREEDY = Sampling(temperature=0.0)


def sampling_message_of(sampling: Sampling) -> decoder_pb2.SamplingParameters:
    """Return the message, with presence for what is not None; raises ValueError for a value out of range."""
    message = decoder_pb2.SamplingParameters()
    for parameter in fields(sampling):
        value = getattr(sampling, parameter.name)
        if value is not None:
            setattr(message, parameter.name, value)
    return message
