"""How a generation ended."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from zeroulp.client.work import Work, work_of
from zeroulp.v1 import decoder_pb2


class FinishReason(Enum):
    """Why no further token came."""

    UNKNOWN = decoder_pb2.FINISH_REASON_UNSPECIFIED
    """A reason that this client is too old to know."""
    LENGTH = decoder_pb2.FINISH_REASON_LENGTH
    END_TOKEN = decoder_pb2.FINISH_REASON_END_TOKEN
    """One of the model's end tokens was drawn; it is committed."""
    STOP_STRING = decoder_pb2.FINISH_REASON_STOP_STRING
    CONTEXT_FULL = decoder_pb2.FINISH_REASON_CONTEXT_FULL
    """The model's positions are used up."""

    @classmethod
    def _missing_(cls, value: object) -> FinishReason:
        return cls.UNKNOWN


@dataclass(frozen=True, slots=True)
class Finished:
    """The end of a generation that was not broken off."""

    reason: FinishReason
    text: str
    """The tail that was held back for a possible stop string and is final now."""
    position: int
    """Committed tokens of the session."""
    generated_tokens: int
    stop: str | None
    """The stop string that was completed."""
    work: Work
    total_work: Work


def finished_of(message: decoder_pb2.GenerationFinished) -> Finished:
    """Return what a message holds."""
    return Finished(
        reason=FinishReason(message.reason),
        text=message.text,
        position=message.position,
        generated_tokens=message.generated_tokens,
        stop=message.stop if message.HasField("stop") else None,
        work=work_of(message.work),
        total_work=work_of(message.total_work),
    )
