"""What the server's tests use."""

from __future__ import annotations

import numpy as np
import pytest


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    """Numbers that depend on the test's name only."""
    return np.random.default_rng(list(request.node.nodeid.encode()))
