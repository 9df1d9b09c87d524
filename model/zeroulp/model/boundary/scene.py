"""A fixture of one's own to be refused with, and an eye on whether anything was computed before."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from zeroulp.model.boundary.fixture import Fixture
from zeroulp.model.composition.encoder import TextEncoder
from zeroulp.model.composition.prepared import PreparedInput
from zeroulp.model.compute_team import ComputeTeam
from zeroulp.model.context import Execution, NoGrad
from zeroulp.model.errors import ZeroulpError
from zeroulp.model.kernels.arrays import F64
from zeroulp.model.parameters import Parameter
from zeroulp.model.recording import Recording


class Scene:
    """A fresh fixture with contexts in both kinds: those for what comes before, and the watched ones."""

    def __init__(self, team: ComputeTeam) -> None:
        self.fixture = Fixture.new()
        self.model = self.fixture.model
        self.configuration = self.model.configuration
        self.plain = NoGrad(team)
        self.recording = Recording(team)
        self.seen: list[str] = []
        """Stages that the watched contexts have computed."""
        self.watched_plain = self.plain.observed_by(self._see)
        self.watched_recording = self.recording.observed_by(self._see)

    def _see(self, layer: int | None, stage: str, values: F64) -> None:
        self.seen.append(stage if layer is None else f"blocks.{layer}.{stage}")

    def encoded(self, context: Execution[Any]) -> PreparedInput:
        """Return the fixture's text, prepared."""
        return TextEncoder(self.model.table, self.fixture.batch).encode(context, self.model.backbone)


Arrangement = Callable[[Scene], Callable[[], object]]
"""Sets a scene up, unwatched, and returns the call that is to be refused."""


def renew(node: Parameter) -> None:
    """Give a parameter its own values again: equal ones, of another revision."""
    node.set_value(node.values())


def refusals(team: ComputeTeam, arrangements: Mapping[str, Arrangement]) -> dict[str, Exception | None]:
    """Return each call's refusal by its name; None for one that was not refused, or not before any stage."""
    return {name: _refusal(Scene(team), arrange) for name, arrange in arrangements.items()}


def _refusal(scene: Scene, arrange: Arrangement) -> Exception | None:
    call = arrange(scene)
    try:
        call()
    except (ZeroulpError, RuntimeError, OverflowError) as error:
        return None if scene.seen else error
    return None
