"""A configuration refuses what cannot be computed, and derives the rest."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pytest

from unit.model import models
from zeroulp.model.configuration import Configuration
from zeroulp.model.errors import UnsupportedModel


def changed(**changes: Any) -> Configuration:
    return Configuration(**{**asdict(models.SMALL), **changes})


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *((name, value) for name, given in asdict(models.SMALL).items() if type(given) is int
          for value in (0, -1)),
        ("context_window", 0),
        ("model_width", 13),
        ("heads", 5),
        ("kv_heads", 3),
        ("model_width", 6),  # heads of width 3
        *((name, value) for name in ("rope_base", "rms_epsilon")
          for value in (0.0, -1.0, float("inf"), float("nan"))),
    ],
)  # fmt: skip
def test_refused(field: str, value: Any) -> None:
    with pytest.raises(UnsupportedModel) as refused:
        changed(**{field: value})
    assert "configuration: " in str(refused.value)
    assert str(value) in str(refused.value) or field in str(refused.value)


def test_derived() -> None:
    c = changed(model_width=24, heads=6, kv_heads=2)
    assert (c.head_width, c.kv_width, c.group) == (4, 8, 3)


@pytest.mark.parametrize(("window", "first"), [(None, [0] * 5), (1, [0, 1, 2, 3, 4]), (3, [0, 0, 0, 1, 2])])
def test_first_visible(window: int | None, first: list[int]) -> None:
    c = changed(context_window=window)
    assert [c.first_visible(t) for t in range(5)] == first
