"""Counters are exact, add up, and never wrap."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

from unit.model import models
from zeroulp.model.work import COUNTER_LIMIT, Work, work_of

NAMES = [field.name for field in fields(Work)]


def test_sum() -> None:
    one, two = Work(*range(1, 8)), Work(*range(10, 80, 10))
    assert one + two == Work(11, 22, 33, 44, 55, 66, 77)
    assert one + Work() == one


@pytest.mark.parametrize("name", NAMES)
def test_a_counter_that_overflows_is_an_error(name: str) -> None:
    full = replace(Work(), **{name: COUNTER_LIMIT})
    assert full + Work() == full
    with pytest.raises(OverflowError, match=name):
        full + replace(Work(), **{name: 1})


def test_prefill_decode_and_full_forward() -> None:
    c = models.SMALL  # 2 heads, 2 layers
    assert work_of(c, 0, 3, prefill=True) == Work(3, 3, 0, 6, 18, 2 * 2 * (1 + 2 + 3))
    assert work_of(c, 3, 2, prefill=False) == Work(2, 0, 2, 4, 12, 2 * 2 * (4 + 5))
    assert work_of(c, 0, 3, prefill=True, cached=False) == Work(3, 0, 0, 0, 18, 2 * 2 * (1 + 2 + 3))
    windowed = replace(c, context_window=2)
    assert work_of(windowed, 1, 3, prefill=False).attention_score_values == 2 * 2 * (2 + 2 + 2)
