"""Gradients of attention agree with the naive ones in every bit: groups, windows, packed documents, bands."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from naive import gradients as naive
from unit.model.conftest import THREADS, Cutting
from zeroulp.model.attention_gradients import BAND, attention
from zeroulp.model.compute_team import ComputeTeam
from zeroulp.model.kernels.arrays import F64, I64
from zeroulp.model.kernels.cache_rows import BLOCK
from zeroulp.model.kernels.team import new_control


@dataclass
class Case:
    """Documents side by side, each seen by its own rows; ``before`` keys of the first have no row."""

    kv_heads: int
    group: int
    width: int
    before: int
    documents: list[int]
    window: int | None
    seed: int

    def __post_init__(self) -> None:
        rng, rows = np.random.default_rng(self.seed), sum(self.documents)
        total = self.before + rows
        self.q = rng.normal(size=(rows, self.kv_heads * self.group * self.width)) * 2
        self.k = rng.normal(size=(total, self.kv_heads * self.width))
        self.v = rng.normal(size=(total, self.kv_heads * self.width))
        self.dmixed = rng.normal(size=self.q.shape)
        starts = np.repeat(np.cumsum([0, *self.documents[:-1]]) + self.before, self.documents)
        starts[: self.documents[0]] = 0
        positions = np.arange(self.before, total, dtype=np.int64)
        window = total if self.window is None else self.window
        self.first: I64 = np.maximum(starts, positions - window + 1)
        self.last: I64 = positions + 1

    @property
    def scale(self) -> float:
        return 1.0 / math.sqrt(self.width)

    def computed(self, control: I64 | None = None) -> list[bytes]:
        control = new_control() if control is None else control
        ranges = self.first, self.last
        results = attention(control, self.q, self.k, self.v, self.width, *ranges, self.scale, self.dmixed)
        assert [x.shape for x in results] == [x.shape for x in (self.q, self.k, self.v)]
        assert all(x.flags.c_contiguous for x in results)
        return [x.tobytes() for x in results]

    def naively(self) -> list[bytes]:
        q, k, v, dmixed = (x.tolist() for x in (self.q, self.k, self.v, self.dmixed))
        ranges = self.first.tolist(), self.last.tolist()
        return [
            np.array(x).tobytes() for x in naive.attention(q, k, v, self.width, *ranges, self.scale, dmixed)
        ]


@settings(max_examples=80)
@given(
    st.builds(
        Case,
        kv_heads=st.integers(1, 3),
        group=st.integers(1, 5),
        width=st.sampled_from([2, 4, 6, 8, 10]),
        before=st.sampled_from([0, 0, 1, BLOCK - 1, BLOCK]),
        documents=st.lists(st.integers(1, 14), min_size=1, max_size=4),
        window=st.one_of(st.none(), st.integers(1, 20)),
        seed=st.integers(0, 2**32),
    )
)
def test_any_case(case: Case) -> None:
    assert case.computed() == case.naively()


@pytest.mark.parametrize("rows", [BAND - 1, BAND, BAND + 1, 2 * BAND + 3])
@pytest.mark.parametrize("window", [None, 1, 7, BLOCK, BAND + 1])
def test_rows_about_a_band(rows: int, window: int | None) -> None:
    case = Case(1, 2, 2, 0, [rows], window, seed=rows)
    assert case.computed() == case.naively()


@pytest.mark.parametrize("window", [None, 5])
def test_documents_of_many_lengths(window: int | None) -> None:
    case = Case(2, 1, 4, 0, [1, 1, 2, 3, 4, 31, 32, 33, 1, 9, 1], window, seed=4)
    assert case.computed() == case.naively()


def test_packed_documents_are_those_alone() -> None:
    case, lengths = Case(2, 2, 6, 0, [9, 40, 3], None, seed=5), [9, 40, 3]
    start, want = 0, []
    for length in lengths:
        one, rows = Case(2, 2, 6, 0, [length], None, seed=0), slice(start, start + length)
        one.q, one.k, one.v, one.dmixed = case.q[rows], case.k[rows], case.v[rows], case.dmixed[rows]
        want.append(one.computed())
        start += length
    assert case.computed() == [b"".join(parts) for parts in zip(*want, strict=True)]


@pytest.mark.parametrize("garbage", [math.nan, math.inf, 1e308])
def test_what_a_row_does_not_see_does_not_matter(garbage: float) -> None:
    case = Case(1, 2, 4, 0, [6, 30, 5], None, seed=6)
    want = case.computed()
    middle = slice(6, 36)
    for x in (case.k, case.v, case.dmixed, case.q):
        x[middle] = garbage
    got = case.computed()
    for mine, theirs, width in zip(got, want, (8, 4, 4), strict=True):
        rows, wanted = (np.frombuffer(x).reshape(-1, width) for x in (mine, theirs))
        for others in (slice(0, 6), slice(36, None)):
            assert rows[others].tobytes() == wanted[others].tobytes()


def test_a_key_that_no_row_sees_has_no_gradient() -> None:
    case = Case(1, 1, 2, 40, [3], 2, seed=7)
    _, dk, dv = case.computed()
    for gradient in (dk, dv):
        assert np.frombuffer(gradient).reshape(-1, 2)[:39].tobytes() == bytes(39 * 16)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_score_that_is_not_finite_stays_no_number(bad: float) -> None:
    case = Case(1, 1, 2, 0, [4], None, seed=8)
    case.k[1, 0] = bad
    assert np.isnan(np.frombuffer(case.computed()[0]).reshape(-1, 2)[1:]).all()


@pytest.mark.parametrize("threads", THREADS)
def test_threads_and_parts(teams: dict[int, ComputeTeam], cutting: Cutting, threads: int) -> None:
    case = Case(3, 2, 6, 10, [80, 31, 50], 60, seed=9)
    want = case.computed()
    for parts in (1, 2, 5, 64):
        with teams[threads].awake(), cutting.into(parts):
            assert case.computed(teams[threads].control) == want, parts


def ones(*shape: int) -> F64:
    return np.ones(shape)


def test_equal_scores_by_hand() -> None:
    # p is 1/2 each, dp is (1, 3): ds is -1/2, 1/2
    dq, dk, dv = attention(
        new_control(), ones(1, 1), ones(2, 1), np.array([[1.0], [3.0]]), 1, np.array([0]), np.array([2]), 0.5,
        ones(1, 1),
    )  # fmt: skip
    assert (dq.tolist(), dk.tolist(), dv.tolist()) == ([[0.0]], [[-0.25], [0.25]], [[0.5], [0.5]])
