"""What the server's tests use."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from unit.server.engines import LIMITS, MODEL
from zeroulp.model.compute_team import ComputeTeam
from zeroulp.server.engine.engine import Engine


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    """Numbers that depend on the test's name only."""
    return np.random.default_rng(list(request.node.nodeid.encode()))


@pytest.fixture
def engine() -> Iterator[Engine]:
    """An engine over a small model, stopped at the end."""
    engine = Engine(MODEL, None, LIMITS, ComputeTeam(1))
    yield engine
    engine.stop()
