"""A team's helpers change no bit, rest between steps, and end with it."""

from __future__ import annotations

import gc
import threading
import weakref

import numpy as np
import pytest

from unit.model import models
from unit.model.conftest import THREADS, Cutting
from zeroulp.model.compute_team import ComputeTeam
from zeroulp.model.configuration import Configuration
from zeroulp.model.context import NoGrad
from zeroulp.model.full_forward import full_forward
from zeroulp.model.kernels.team import ASLEEP

MODEL = models.with_gains(models.SMALL, 41)
# wide enough that the kernels are cut into parts by themselves
WIDE = models.seeded(Configuration(1024, 128, 4, 2, 341, 1, 64, 10000.0, 1e-6), 20)


def helpers_since(before: set[threading.Thread]) -> list[threading.Thread]:
    return [t for t in threading.enumerate() if t not in before and t.name.startswith("compute-helper")]


@pytest.mark.parametrize("threads", THREADS)
def test_wide_model_by_any_number_of_threads(teams: dict[int, ComputeTeam], threads: int) -> None:
    ids = np.random.default_rng(1).integers(0, 1024, 20).tolist()
    want = full_forward(WIDE, NoGrad(teams[1]), ids).tobytes()
    context = NoGrad(teams[threads])
    assert full_forward(WIDE, context, ids).tobytes() == want  # asleep
    with teams[threads].awake():
        for _ in range(3):
            assert full_forward(WIDE, context, ids).tobytes() == want
            assert models.by_single_tokens(WIDE, context, ids[:5]).tobytes() == want[: 5 * 1024 * 8]


def test_awake_and_asleep_in_turns(teams: dict[int, ComputeTeam], cutting: Cutting) -> None:
    ids = [1, 2, 3, 4, 5, 6, 7]
    context = NoGrad(teams[3])
    want = full_forward(MODEL, context, ids).tobytes()
    for _ in range(50):
        with teams[3].awake(), cutting.into(5):
            assert full_forward(MODEL, context, ids).tobytes() == want
        assert teams[3].control[ASLEEP] == 1


def test_nested_steps_stay_awake_until_the_last_ends(teams: dict[int, ComputeTeam]) -> None:
    team = teams[2]
    assert team.control[ASLEEP] == 1
    with team.awake():
        with team.awake():
            assert team.control[ASLEEP] == 0
        assert team.control[ASLEEP] == 0
    assert team.control[ASLEEP] == 1
    with pytest.raises(ZeroDivisionError), team.awake():
        _ = 1 / 0
    assert team.control[ASLEEP] == 1


@pytest.mark.parametrize("threads", [1, 2, 7])
def test_two_threads_use_one_team(teams: dict[int, ComputeTeam], cutting: Cutting, threads: int) -> None:
    team, ids = teams[threads], [[1, 2, 3, 4, 5, 6], [7, 8, 9, 10]]
    want = [full_forward(MODEL, NoGrad(team), some).tobytes() for some in ids]
    wrong: list[int] = []

    def compute(which: int) -> None:
        context = NoGrad(team)
        for _ in range(40):
            with team.awake():
                if full_forward(MODEL, context, ids[which]).tobytes() != want[which]:
                    wrong.append(which)

    with cutting.into(6):
        callers = [threading.Thread(target=compute, args=(which,)) for which in (0, 1)]
        for caller in callers:
            caller.start()
        for caller in callers:
            caller.join(60)
            assert not caller.is_alive()
    assert wrong == []
    assert team.control[ASLEEP] == 1


@pytest.mark.parametrize("used", [False, True])
def test_helpers_end_when_the_team_is_collected(used: bool) -> None:
    before = set(threading.enumerate())
    team = ComputeTeam(4)
    helpers = helpers_since(before)
    assert len(helpers) == 3
    assert all(helper.daemon for helper in helpers)
    if used:
        context = NoGrad(team)
        with team.awake():
            full_forward(MODEL, context, [1, 2, 3])
        del context
    gone = weakref.ref(team)
    del team
    gc.collect()
    assert gone() is None
    for helper in helpers:
        helper.join(30)
    assert helpers_since(before) == []


def test_one_thread_needs_no_helper() -> None:
    before = set(threading.enumerate())
    team = ComputeTeam(1)
    assert helpers_since(before) == []
    with team.awake():
        assert full_forward(MODEL, NoGrad(team), [1]).shape == (1, 29)
