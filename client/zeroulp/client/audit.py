"""What AuditSession has found."""

from __future__ import annotations

from dataclasses import dataclass

from zeroulp.client.work import Work, work_of
from zeroulp.v1 import decoder_pb2


@dataclass(frozen=True, slots=True)
class Difference:
    """The first value, by layer and then by position, that a full forward gives other bits.

    ``layer`` is None for rows of H and for logits; ``stage`` is key, value, final_norm or logits.
    """

    layer: int | None
    stage: str
    position: int
    feature: int
    cached: float
    recomputed: float
    ulps: int


@dataclass(frozen=True, slots=True)
class Audit:
    """How many tokens and values were compared, and the first difference, None when there is none."""

    position: int
    compared_values: int
    difference: Difference | None
    work: Work


def audit_of(answer: decoder_pb2.AuditSessionResponse) -> Audit:
    """Return what an answer tells."""
    found = answer.difference if answer.HasField("difference") else None
    difference = None
    if found is not None:
        difference = Difference(
            found.layer if found.HasField("layer") else None,
            found.stage,
            found.position,
            found.feature,
            found.cached,
            found.recomputed,
            found.ulps,
        )
    return Audit(answer.position, answer.compared_values, difference, work_of(answer.work))
