"""A call moves along the table, and no other way."""

from __future__ import annotations

from itertools import product

import pytest

from zeroulp.server.engine.lifecycle import TRANSITIONS, Stage, moved

LEGAL = {
    (Stage.QUEUED, Stage.RUNNING),
    (Stage.QUEUED, Stage.FAILED),
    (Stage.RUNNING, Stage.DONE),
    (Stage.RUNNING, Stage.FAILED),
}


def test_every_stage_is_in_the_table() -> None:
    assert set(TRANSITIONS) == set(Stage)


@pytest.mark.parametrize(("now", "to"), [*product(Stage, Stage)])
def test_every_pair(now: Stage, to: Stage) -> None:
    if (now, to) in LEGAL:
        assert moved(now, to) is to
    else:
        with pytest.raises(RuntimeError, match=f"cannot go from {now.value} to {to.value}"):
            moved(now, to)
