"""What the tests of several kernels use."""

from __future__ import annotations

import numpy as np
import pytest

from zeroulp.model.kernels.arrays import I64
from zeroulp.model.kernels.team import new_control


@pytest.fixture
def alone() -> I64:
    """The control words of a team without helpers."""
    return new_control()


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    """Numbers that depend on the test's name only."""
    return np.random.default_rng(list(request.node.nodeid.encode()))
