"""The backbone's own boundary."""

from __future__ import annotations

import numpy as np
import pytest

from zeroulp.model.compute_team import ComputeTeam
from zeroulp.model.context import NoGrad
from zeroulp.model.kernels.arrays import F64
from zeroulp.model.loading import load


def test_vectors_of_another_width_are_refused_before_any_block_runs() -> None:
    seen: list[str] = []

    def watch(layer: int | None, stage: str, values: F64) -> None:
        seen.append(stage)

    backbone = load("boundary-39").model.backbone
    with pytest.raises(ValueError, match="width 3 were given; the backbone takes 4"):
        backbone.forward(NoGrad(ComputeTeam(1)).observed_by(watch), np.zeros((1, 3)), [])
    assert not seen
