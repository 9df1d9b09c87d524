"""What the server's tests use."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from unit.server.engines import LIMITS, MODEL
from zeroulp.model.cache.pool import block_bytes
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


@pytest.fixture
def four_blocks() -> Iterator[Engine]:
    """An engine with four blocks, whoever has them, and three places."""
    limits = replace(LIMITS, cache_bytes=4 * block_bytes(MODEL.configuration), max_sessions=3)
    engine = Engine(MODEL, None, limits, ComputeTeam(1))
    yield engine
    engine.stop()
