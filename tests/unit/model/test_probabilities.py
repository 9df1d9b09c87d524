"""Log-probabilities agree with the naive loss in every bit."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from naive import model as naive
from naive import sampling as naive_sampling
from unit.model.conftest import Cutting
from zeroulp.model.context import NoGrad
from zeroulp.model.errors import NonFinite
from zeroulp.model.probabilities import log_probabilities

LOGITS = st.lists(st.one_of(st.floats(-700, 700), st.sampled_from([0.0, -0.0, 1.5])), min_size=1, max_size=90)


def bits(value: float) -> bytes:
    return struct.pack(">d", value)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(line=LOGITS, data=st.data())
def test_of_one_token(context: NoGrad, line: list[float], data: st.DataObject) -> None:
    token = data.draw(st.integers(0, len(line) - 1))
    table = log_probabilities(context, np.array([line]))
    nll = 0.0 - table.of(0, token)
    assert bits(nll + 0.0) == bits(naive.mean_nll([line], [token]) + 0.0)
    assert table.best[0] == line.index(max(line))


def test_many_rows_in_any_number_of_parts(
    context: NoGrad, cutting: Cutting, rng: np.random.Generator
) -> None:
    z = rng.normal(size=(9, 300)) * 3
    want = [bits(-naive.mean_nll([line], [7])) for line in z.tolist()]
    for parts in (1, 2, 5, 64):
        with cutting.into(parts):
            table = log_probabilities(context, z)
        assert [bits(table.of(row, 7)) for row in range(9)] == want


@pytest.mark.parametrize("count", [1, 2, 5, 40])
def test_top(context: NoGrad, count: int) -> None:
    line = [1.0, 3.0, 1.0, 3.0, -2.0]
    table = log_probabilities(context, np.array([[0.0] * 5, line]))
    top = table.top(1, count)
    assert [token for token, _ in top] == naive_sampling.best_entries(line, count)
    assert [value for _, value in top] == [table.of(1, token) for token, _ in top]


def test_one_word_vocabulary_is_certain(context: NoGrad) -> None:
    assert log_probabilities(context, np.array([[-3.0]])).of(0, 0) == 0.0


def test_a_difference_that_overflows_is_an_error(context: NoGrad) -> None:
    table = log_probabilities(context, np.array([[0.0, 0.0], [1.7e308, -1.7e308]]))
    assert table.of(1, 0) == 0.0
    with pytest.raises(NonFinite, match="log_probability") as error:
        table.of(1, 1)
    assert error.value.row == 1
