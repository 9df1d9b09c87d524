from __future__ import annotations

from collections.abc import Iterator

import pytest

from wire.daemons import Daemon, daemon
from wire.models import KNOWN_ANSWERS, SHARED, SLOW, known_model, seeded
from wire.serving import Serving, serving
from zeroulp.model.loading import load
from zeroulp.server.engine.limits import Limits


@pytest.fixture(scope="session")
def boundary() -> Iterator[Serving]:
    """boundary-39 in this process."""
    with serving(load("boundary-39")) as served:
        yield served


@pytest.fixture(scope="session")
def glass() -> Iterator[Serving]:
    """glass-default in this process: it has a tokenizer and room for text."""
    with serving(load("glass-default")) as served:
        yield served


@pytest.fixture(scope="session")
def grouped() -> Iterator[Serving]:
    """The model of the known answers with grouped queries and 64 positions; ids only."""
    with serving(known_model("grouped-query-7")) as served:
        yield served


@pytest.fixture(scope="session")
def slow() -> Iterator[Serving]:
    """A model whose long prompts take about a second."""
    with serving(seeded("slow", SLOW, 11), Limits(cache_bytes=1024**3)) as served:
        yield served


@pytest.fixture(scope="session")
def here() -> Iterator[Serving]:
    """A model whose sessions share blocks."""
    with serving(seeded("here", SHARED, 5)) as served:
        yield served


@pytest.fixture(scope="session")
def alone() -> Iterator[Serving]:
    """The same model, for sessions that are never forked, cut or shared."""
    with serving(seeded("alone", SHARED, 5)) as served:
        yield served


@pytest.fixture
def nothing_is_left(here: Serving, alone: Serving) -> Iterator[None]:
    """Hold both servers to their baseline once the sessions of a test are closed."""
    yield
    for served in (here, alone):
        served.check_blocks()
        served.close_sessions()
        assert served.footprint == (0, served.hall.pool.capacity)


@pytest.fixture(scope="session", params=KNOWN_ANSWERS)
def known(request: pytest.FixtureRequest) -> Iterator[Serving]:
    """Each model of the known answers in turn."""
    with serving(known_model(request.param)) as served:
        yield served


@pytest.fixture(scope="session")
def boundary_daemon() -> Iterator[Daemon]:
    """boundary-39 as a process of its own."""
    with daemon("boundary-39") as running:
        yield running


@pytest.fixture(scope="session")
def real_daemon() -> Iterator[Daemon]:
    """SmolLM2-135M-Instruct as a process of its own."""
    with daemon("smollm2-135m") as running:
        yield running
