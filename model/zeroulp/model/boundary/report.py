"""Everything that the fixture shows, as one record."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from zeroulp.model.boundary.cached_pass import CachedPass
from zeroulp.model.boundary.cached_refusals import CACHED_REFUSALS
from zeroulp.model.boundary.composition import Composition
from zeroulp.model.boundary.fixture import Fixture
from zeroulp.model.boundary.input_refusals import INPUT_REFUSALS
from zeroulp.model.boundary.scene import refusals
from zeroulp.model.boundary.tied_gradient import TiedGradient
from zeroulp.model.compute_team import ComputeTeam
from zeroulp.model.context import NoGrad
from zeroulp.model.recording import Recording

TOLERANCE = 1e-12
"""How far the sum of the table's two gradients may lie from the total."""


@dataclass(frozen=True, slots=True)
class GradientSample:
    """The gradient of one scalar of the table, and what each path contributes."""

    row: int
    feature: int
    total: float
    lookup_path: float
    head_path: float


@dataclass(frozen=True, slots=True)
class CachedReport:
    """What a prefill and a decode leave, and how their newest logits compare with the full forward's."""

    prefix: int
    cache_appends: int
    attention_score_values: int
    newest_logit_bit_mismatches: int
    graph_free: bool


@dataclass(frozen=True, slots=True)
class Report:
    """Losses in nats; ``refusals`` holds None for a call that was not refused before any block ran."""

    loss: float
    loss_bits: str
    logit_shape: tuple[int, ...]
    parameters: int
    named_tensors: int
    lookup_and_head_same_node: bool
    same_text_wrapper_logits: bool
    gradient_sample: GradientSample
    max_partition_error: float
    within_tolerance: bool
    cached: CachedReport
    refusals: dict[str, str | None]

    @property
    def holds(self) -> bool:
        """Whether everything is as promised."""
        return (
            self.lookup_and_head_same_node
            and self.same_text_wrapper_logits
            and self.within_tolerance
            and self.cached.newest_logit_bit_mismatches == 0
            and self.cached.graph_free
            and None not in self.refusals.values()
        )


def report(team: ComputeTeam) -> Report:
    """Compute the report."""
    fixture = Fixture.new()
    recording, plain = Recording(team), NoGrad(team)
    composed = Composition.of(recording, fixture)
    wrapped = fixture.model.batch_logits(recording, fixture.batch)
    gradient = TiedGradient.of(recording, fixture)
    loss = composed.loss.item()
    return Report(
        loss=loss,
        loss_bits=struct.pack(">d", loss).hex(),
        logit_shape=composed.logits.shape,
        parameters=fixture.model.parameters.count,
        named_tensors=len(fixture.model.parameters),
        lookup_and_head_same_node=composed.lookup_table is composed.head.table,
        same_text_wrapper_logits=wrapped.raw.tobytes() == composed.logits.raw.tobytes(),
        gradient_sample=_sample(gradient, row=fixture.ids[1], feature=0),
        max_partition_error=gradient.max_partition_error,
        within_tolerance=gradient.max_partition_error <= TOLERANCE,
        cached=_cached(plain, fixture, composed),
        refusals=_messages(team),
    )


def _sample(gradient: TiedGradient, row: int, feature: int) -> GradientSample:
    paths = (gradient.total, gradient.lookup, gradient.head)
    return GradientSample(row, feature, *(float(path[row, feature]) for path in paths))


def _cached(context: NoGrad, fixture: Fixture, composed: Composition) -> CachedReport:
    cached = CachedPass.of(context, fixture)
    work = cached.session.total_work
    return CachedReport(
        prefix=cached.session.position,
        cache_appends=work.cache_appends,
        attention_score_values=work.attention_score_values,
        newest_logit_bit_mismatches=cached.bit_mismatches(composed.logits.raw[0, -1]),
        graph_free=cached.graph_free,
    )


def _messages(team: ComputeTeam) -> dict[str, str | None]:
    found = refusals(team, {**INPUT_REFUSALS, **CACHED_REFUSALS})
    return {name: None if error is None else str(error) for name, error in found.items()}
