"""Gradients agree with the naive ones in every bit, by any number of threads and parts."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from naive import gradients as naive
from naive.model import mean_nll as naive_mean_nll
from naive.model import softmax
from unit.kernels.panels import packed_as, representable
from unit.kernels.quantised_blocks import matrix
from unit.model.conftest import THREADS, Cutting
from zeroulp.model import gradients
from zeroulp.model.compute_team import ComputeTeam
from zeroulp.model.kernels import shared
from zeroulp.model.kernels.arrays import F64, I64
from zeroulp.model.kernels.rope import rope_frequencies, rope_turns
from zeroulp.model.kernels.team import new_control
from zeroulp.model.loss import mean_nll
from zeroulp.model.parameters import TABLE, Parameter

ALONE = new_control()
seeds, few, odd = st.integers(0, 2**32), st.integers(1, 20), st.integers(1, 37)


def numbers(rng: np.random.Generator, *shape: int) -> F64:
    """Numbers of many magnitudes, some of them zeros of either sign."""
    values = rng.normal(size=shape) * 2.0 ** rng.integers(-20, 20, shape)
    return np.where(rng.random(shape) < 0.1, np.copysign(0.0, values), values)


def same(got: F64, want: Any) -> None:
    assert got.tobytes() == np.array(want, np.float64).tobytes()
    assert got.size == np.size(want)


@pytest.mark.parametrize("storage", ["f64", "f32", "bf16"])
@settings(max_examples=25)
@given(rows=few, depth=odd, width=odd, seed=seeds)
def test_linear_input(storage: str, rows: int, depth: int, width: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    w, dy = representable(rng, (depth, width), storage), numbers(rng, rows, width)
    same(
        gradients.linear_input(ALONE, dy, packed_as(w, storage)), naive.linear_input(dy.tolist(), w.tolist())
    )


@pytest.mark.parametrize("kind", ["Q4_1", "Q8_0"])
@pytest.mark.parametrize(("rows", "depth", "width"), [(1, 32, 9), (13, 64, 5), (9, 96, 16)])
def test_linear_input_of_quantised_weights(
    rng: np.random.Generator, kind: str, rows: int, depth: int, width: int
) -> None:
    w, packed = matrix(rng, kind, depth, width)
    dy = numbers(rng, rows, width)
    same(gradients.linear_input(ALONE, dy, packed), naive.linear_input(dy.tolist(), w.tolist()))


@settings(max_examples=50)
@given(rows=st.integers(1, 40), depth=odd, width=odd, seed=seeds)
def test_linear_weight(rows: int, depth: int, width: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, dy = numbers(rng, rows, depth), numbers(rng, rows, width)
    same(gradients.linear_weight(ALONE, x, dy), naive.linear_weight(x.tolist(), dy.tolist()))


def test_the_tied_head(rng: np.random.Generator) -> None:
    table, hidden, dz = numbers(rng, 21, 6), numbers(rng, 11, 6), numbers(rng, 11, 21)
    matrix = Parameter(TABLE, table).matrix
    want = naive.linear_input(dz.tolist(), np.ascontiguousarray(table.T).tolist())
    same(gradients.linear_input(ALONE, dz, matrix), want)
    want = naive.linear_weight(dz.tolist(), hidden.tolist())  # [V, D], as the table is
    same(gradients.linear_weight(ALONE, dz, hidden), want)


@given(rows=st.integers(1, 40), width=odd, vocabulary_size=st.integers(1, 12), seed=seeds)
def test_embedding_weight(rows: int, width: int, vocabulary_size: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    ids, dx = rng.integers(0, vocabulary_size, rows), numbers(rng, rows, width)
    want = naive.embedding_weight(ids.tolist(), dx.tolist(), vocabulary_size)
    same(gradients.embedding_weight(ALONE, ids, dx, vocabulary_size), want)


def test_the_embedding_example_of_the_specification() -> None:
    table = gradients.embedding_weight(ALONE, np.array([0, 2, 0]), np.ones((3, 2)), 3)
    assert table.tolist() == [[2, 2], [0, 0], [1, 1]]
    alone = gradients.embedding_weight(ALONE, np.array([1]), np.array([[-0.0, -0.0]]), 2)
    same(alone, [[0.0, 0.0], [0.0, 0.0]])  # a sum of a negative zero starts at +0.0


@settings(max_examples=50)
@given(rows=few, width=odd, seed=seeds)
def test_rms_norm(rows: int, width: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, gain, dy = numbers(rng, rows, width), numbers(rng, width), numbers(rng, rows, width)
    dx, dgain = gradients.rms_norm(ALONE, x, gain, 1e-6, dy)
    want = naive.rms_norm(x.tolist(), gain.tolist(), 1e-6, dy.tolist())
    same(dx, want[0])
    same(dgain, want[1])


def turns(rows: int, pairs: int) -> tuple[F64, F64]:
    frequencies, cosines, sines = np.empty(pairs), np.empty((rows, pairs)), np.empty((rows, pairs))
    rope_frequencies(1e4, 2 * pairs, frequencies)
    rope_turns(np.arange(rows), frequencies, cosines, sines)
    return cosines, sines


@given(rows=few, heads=st.integers(1, 4), pairs=st.integers(1, 6), seed=seeds)
def test_rotate(rows: int, heads: int, pairs: int, seed: int) -> None:
    dy = numbers(np.random.default_rng(seed), rows, heads * 2 * pairs)
    cosines, sines = turns(rows, pairs)
    want = map(naive.rotate, dy.tolist(), cosines.tolist(), sines.tolist())
    same(gradients.rotate(ALONE, dy, cosines, sines), list(want))


@pytest.mark.parametrize("size", [1, 63, 64, 65, 1000])
def test_swiglu(rng: np.random.Generator, size: int) -> None:
    gate, up, dy = rng.normal(size=(3, size, 1)) * 8
    check_swiglu(gate, up, dy)


def test_swiglu_of_edges() -> None:
    edges = [0.0, -0.0, 5e-324, 708.0, -708.0, 745.2, -745.2, -746.0, 1e5, -1e5, 1e300, -1e300]
    gate, up, dy = (np.ascontiguousarray(grid) for grid in np.meshgrid(edges, [1.0, -0.0, 0.3], [1.0, -2.0]))
    check_swiglu(gate, up, dy)


def check_swiglu(gate: F64, up: F64, dy: F64) -> None:
    dgate, dup = gradients.swiglu(ALONE, gate, up, dy)
    want = [naive.swiglu(*each) for each in zip(*(x.ravel().tolist() for x in (gate, up, dy)), strict=True)]
    same(dgate, [pair[0] for pair in want])
    same(dup, [pair[1] for pair in want])


def test_dropout_leaves_positive_zeros_whatever_was_dropped(rng: np.random.Generator) -> None:
    dy, mask = numbers(rng, 5, 30), (rng.random((5, 30)) >= 0.25) / 0.75
    dy[0, :6] = [math.nan, math.inf, -math.inf, -1.0, -0.0, -0.0]
    mask[0, :6] = [0.0, 0.0, -0.0, 0.0, 0.0, 2.0]
    want = [g * m if m else 0.0 for g, m in zip(dy.ravel().tolist(), mask.ravel().tolist(), strict=True)]
    assert want[4:6] == [0.0, -0.0]
    same(gradients.dropout(ALONE, dy, mask), want)


@settings(max_examples=50)
@given(rows=few, width=odd, seed=seeds)
def test_softmax(rows: int, width: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, dp = np.round(rng.normal(size=(rows, width)) * 3, 1), numbers(rng, rows, width)
    p = np.empty_like(x)
    shared.softmax(ALONE, x, p)
    same(p, [softmax(row) for row in x.tolist()])
    want = map(naive.softmax_gradient, p.tolist(), dp.tolist())
    same(gradients.softmax(ALONE, p, dp), list(want))


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("place", [0, 5, 9])
def test_a_softmax_that_is_not_finite_is_told(rng: np.random.Generator, bad: float, place: int) -> None:
    x = rng.normal(size=(3, 10))
    x[1, place] = bad
    p = np.empty_like(x)
    shared.softmax(ALONE, x, p)
    assert np.isnan(p[1]).all()
    same(p[[0, 2]], [softmax(row) for row in x[[0, 2]].tolist()])


@settings(max_examples=50)
@given(rows=few, width=st.integers(1, 70), seed=seeds)
def test_loss_with_a_mask(rows: int, width: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    z, targets, valid = rng.normal(size=(rows, width)) * 4, rng.integers(0, width, rows), masked(rng, rows)
    want = naive.mean_nll(z.tolist(), targets.tolist(), valid.tolist(), -0.3)
    z[~valid], targets[~valid] = math.nan, -1  # not looked at
    same(gradients.mean_nll(ALONE, z, targets, valid, -0.3), want)


def masked(rng: np.random.Generator, rows: int) -> NDArray[np.bool_]:
    valid = rng.random(rows) < 0.7
    valid[rng.integers(rows)] = True
    return valid


def test_mean_nll_of_the_valid_rows(rng: np.random.Generator) -> None:
    z, targets, valid = rng.normal(size=(9, 33)), rng.integers(0, 33, 9), masked(rng, 9)
    want = naive_mean_nll(z[valid].tolist(), targets[valid].tolist())
    z[~valid], targets[~valid] = math.nan, -1
    assert np.float64(mean_nll(ALONE, z, targets, valid)).tobytes() == np.float64(want).tobytes()


def test_add_into(rng: np.random.Generator) -> None:
    total, more = numbers(rng, 7, 5), numbers(rng, 7, 5)
    want = total + more
    gradients.add_into(ALONE, total, more)
    same(total, want)


@pytest.mark.parametrize(
    "call",
    [
        lambda gaps: gradients.softmax(ALONE, gaps, gaps),
        lambda gaps: gradients.linear_input(ALONE, gaps, packed_as(np.ones((2, 3)), "f64")),
        lambda gaps: gradients.dropout(ALONE, gaps, gaps),
        lambda gaps: gradients.rotate(ALONE, gaps, gaps, gaps),
        lambda gaps: gradients.add_into(ALONE, gaps, gaps),
    ],
)
def test_an_array_with_gaps_is_refused(call: Callable[[F64], object]) -> None:
    with pytest.raises(ValueError, match="contiguous"):
        call(np.ones((4, 6))[:, ::2])


Call = Callable[[I64, np.random.Generator], tuple[F64, ...]]


def _linear_input(control: I64, rng: np.random.Generator) -> tuple[F64, ...]:
    w, dy = representable(rng, (33, 91), "f32"), numbers(rng, 70, 91)
    return (gradients.linear_input(control, dy, packed_as(w, "f32")),)


def _linear_weight(control: I64, rng: np.random.Generator) -> tuple[F64, ...]:
    return (gradients.linear_weight(control, numbers(rng, 70, 91), numbers(rng, 70, 33)),)


def _embedding_weight(control: I64, rng: np.random.Generator) -> tuple[F64, ...]:
    return (gradients.embedding_weight(control, rng.integers(0, 20, 300), numbers(rng, 300, 77), 20),)


def _rms_norm(control: I64, rng: np.random.Generator) -> tuple[F64, ...]:
    return gradients.rms_norm(control, numbers(rng, 90, 67), numbers(rng, 67), 1e-6, numbers(rng, 90, 67))


def _swiglu(control: I64, rng: np.random.Generator) -> tuple[F64, ...]:
    return gradients.swiglu(control, *rng.normal(size=(3, 50, 341)))


def _softmax(control: I64, rng: np.random.Generator) -> tuple[F64, ...]:
    p, x = np.empty((50, 341)), rng.normal(size=(50, 341))
    shared.softmax(control, x, p)
    return (p, gradients.softmax(control, p, numbers(rng, 50, 341)))


def _dropout(control: I64, rng: np.random.Generator) -> tuple[F64, ...]:
    return (
        gradients.dropout(control, numbers(rng, 200, 341), np.where(rng.random((200, 341)) > 0.5, 2.0, 0.0)),
    )


def _loss(control: I64, rng: np.random.Generator) -> tuple[F64, ...]:
    z, targets, valid = rng.normal(size=(40, 300)), rng.integers(0, 300, 40), masked(rng, 40)
    return (gradients.mean_nll(control, z, targets, valid, 1.0),)


CALLS = [_linear_input, _linear_weight, _embedding_weight, _rms_norm, _swiglu, _softmax, _dropout, _loss]


@pytest.mark.parametrize("call", CALLS)
def test_threads_and_parts(teams: dict[int, ComputeTeam], cutting: Cutting, call: Call) -> None:
    want = [x.tobytes() for x in call(ALONE, np.random.default_rng(1))]
    for threads in THREADS:
        for parts in (1, 2, 5, 64):
            with teams[threads].awake(), cutting.into(parts):
                got = call(teams[threads].control, np.random.default_rng(1))
            assert [x.tobytes() for x in got] == want, (threads, parts)
