"""What the model's tests share: teams that live as long as the tests, and kernels cut into small parts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from zeroulp.model.compute_team import ComputeTeam
from zeroulp.model.context import NoGrad
from zeroulp.model.kernels import shared
from zeroulp.model.kernels.arrays import I64
from zeroulp.model.kernels.backward import jobs
from zeroulp.model.kernels.team import run_jobs

THREADS = (1, 2, 3, 7)


@pytest.fixture(scope="session")
def teams() -> dict[int, ComputeTeam]:
    """Teams of every number of threads."""
    return {threads: ComputeTeam(threads) for threads in THREADS}


@pytest.fixture
def context(teams: dict[int, ComputeTeam]) -> NoGrad:
    """Execution by the calling thread alone."""
    return NoGrad(teams[1])


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    """Numbers that depend on the test's name only."""
    return np.random.default_rng(list(request.node.nodeid.encode()))


class Cutting:
    """Small models have one part a kernel, so no thread would ever help: this cuts every kernel into more."""

    def __init__(self) -> None:
        self.parts = 1
        self.jobs = 0

    def run_jobs(self, control: I64, jobs: I64) -> None:
        self.jobs += len(jobs)
        if self.parts > 1:
            jobs[:, 1] = self.parts
        run_jobs(control, jobs)

    @contextmanager
    def into(self, parts: int) -> Iterator[None]:
        """Cut kernels into ``parts``; 1 leaves them as they are."""
        self.parts, before = parts, self.jobs
        try:
            yield
        finally:
            self.parts = 1
        assert self.jobs > before, "no kernel went through run_jobs"


@pytest.fixture
def cutting(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The kernels of this test, ready to be cut."""
    cutting = Cutting()
    monkeypatch.setattr(shared, "run_jobs", cutting.run_jobs)
    monkeypatch.setattr(jobs, "run_jobs", cutting.run_jobs)
    return cutting
