"""Attention over cache blocks agrees with the naive one in every bit, and sees visible rows only."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from naive import model as naive
from zeroulp.model.configuration import Configuration
from zeroulp.model.kernels import shared
from zeroulp.model.kernels.arrays import F64, I64
from zeroulp.model.kernels.attention import attention_part
from zeroulp.model.kernels.attention_strip import STRIP_ROWS
from zeroulp.model.kernels.cache_rows import BLOCK, layer_blocks, store_rows
from zeroulp.model.kernels.team import new_control, run_jobs


@dataclass
class Case:
    """``rows`` new rows after ``before`` cached ones, in blocks full of NaN where nothing was stored."""

    kv_heads: int
    group: int
    width: int
    before: int
    rows: int
    window: int | None
    seed: int
    garbage: float = math.nan

    def __post_init__(self) -> None:
        rng, total = np.random.default_rng(self.seed), self.before + self.rows
        heads = self.kv_heads * self.group
        self.configuration = Configuration(
            1, heads * self.width, heads, self.kv_heads, 1, 1, total, 1e4, 1e-6, self.window
        )
        self.q = rng.normal(size=(self.rows, heads * self.width)) * 2
        self.k = rng.normal(size=(total, self.kv_heads * self.width))
        self.v = rng.normal(size=(total, self.kv_heads * self.width))
        blocks = -(-total // BLOCK)
        self.keys, self.values = layer_blocks(blocks + 2, self.kv_heads, self.width)
        self.keys[...] = self.garbage
        self.values[..., : self.width] = self.garbage
        self.table: I64 = rng.permutation(blocks + 2)[:blocks].astype(np.int64)
        store_rows(self.k, self.v, 0, self.table, self.keys, self.values)
        positions = np.arange(self.before, total, dtype=np.int64)
        self.first = np.array([self.configuration.first_visible(int(t)) for t in positions], np.int64)
        self.last = positions + 1

    @property
    def scale(self) -> float:
        return 1.0 / math.sqrt(self.width)

    def naively(self) -> F64:
        k, v = self.k.tolist(), self.v.tolist()
        return np.array([
            naive.attend(self.configuration, q, k[:last], v[:last], int(first))
            for q, first, last in zip(self.q.tolist(), self.first, self.last, strict=True)
        ])  # fmt: skip

    def computed(self) -> F64:
        y = np.full_like(self.q, np.nan)
        assert self.attend(y)
        return y

    def attend(self, y: F64) -> bool:
        q, first, last, control = self.q, self.first, self.last, new_control()
        return shared.attention(control, q, first, last, self.table, self.keys, self.values, self.scale, y)

    def of_part(self, part: int, parts: int) -> tuple[F64, I64]:
        y, finite = np.full_like(self.q, np.nan), np.ones(parts, np.int64)
        cache = self.table, self.keys, self.values
        attention_part(self.q, self.first, self.last, *cache, self.scale, y, finite, part, parts)
        return y, finite


@settings(max_examples=120)
@given(
    st.builds(
        Case,
        kv_heads=st.integers(1, 3),
        group=st.integers(1, 5),
        width=st.sampled_from([2, 4, 6, 8, 10, 16]),
        before=st.sampled_from([0, 0, 1, 5, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK]),
        rows=st.integers(1, 14),
        window=st.one_of(st.none(), st.integers(1, 2 * BLOCK)),
        seed=st.integers(0, 2**32),
    )
)
def test_any_case(case: Case) -> None:
    assert case.computed().tobytes() == case.naively().tobytes()


@pytest.mark.parametrize("group", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("rows", [BLOCK - 1, BLOCK, BLOCK + 1])
def test_prompts_about_a_block(group: int, rows: int) -> None:
    case = Case(2, group, 6, 0, rows, None, seed=rows)
    assert case.computed().tobytes() == case.naively().tobytes()


@pytest.mark.parametrize("window", [1, 2, 3, 4, 5, BLOCK - 1, BLOCK, BLOCK + 1])
@pytest.mark.parametrize("before", [0, BLOCK - 2, 3 * BLOCK - 1])
def test_windows(window: int, before: int) -> None:
    case = Case(1, 3, 8, before, 7, window, seed=window)
    assert case.computed().tobytes() == case.naively().tobytes()


@pytest.mark.parametrize("before", [BLOCK - 2, BLOCK - 1, BLOCK, BLOCK + 1])
def test_one_row_after_a_block_border(before: int) -> None:
    for group in range(1, 6):
        case = Case(1, group, 10, before, 1, None, seed=group)
        assert case.computed().tobytes() == case.naively().tobytes()


@pytest.mark.parametrize("garbage", [math.nan, math.inf, -math.inf, 1e308, 0.0])
def test_what_is_not_visible_does_not_matter(garbage: float) -> None:
    for window in (None, 3):
        case = Case(2, 2, 6, 40, 5, window, seed=8, garbage=garbage)
        want = case.naively()
        assert case.computed().tobytes() == want.tobytes()
        for row in range(5):  # the keys that this row must not see, also those that others see
            one = Case(2, 2, 6, 40, 5, window, seed=8)
            hidden = np.full((1, 12), garbage)
            for j in [*range(int(one.first[row])), *range(int(one.last[row]), 45)]:
                store_rows(hidden, hidden, j, one.table, one.keys, one.values)
            one.q, one.first, one.last = one.q[[row]], one.first[[row]], one.last[[row]]
            assert one.computed().tobytes() == want[[row]].tobytes()


@pytest.mark.parametrize("parts", [1, 2, 3, 7, 64])
def test_each_part_alone(parts: int) -> None:
    case = Case(3, 2, 6, 30, 9, 20, seed=parts)
    want, written = case.naively(), np.zeros(case.q.shape, np.int64)
    for part in range(parts):
        y, finite = case.of_part(part, parts)
        here = ~np.isnan(y)
        assert y[here].tobytes() == want[here].tobytes()
        assert finite.all()
        written += here
    assert (written == 1).all()


@pytest.mark.parametrize("parts", [2, 3, 7, 64])
@pytest.mark.parametrize(
    ("group", "rows", "width"), [(3, 1, 6), (1, 1, 40), (3, STRIP_ROWS // 3, 20), (2, 4, 8)]
)
@pytest.mark.parametrize("window", [None, 40])
def test_a_few_rows_in_any_parts(
    monkeypatch: pytest.MonkeyPatch, parts: int, group: int, rows: int, width: int, window: int | None
) -> None:
    ran = []

    def run_cut(control: I64, jobs: I64) -> None:
        jobs[:, 1] = parts
        ran.append(parts)
        run_jobs(control, jobs)

    monkeypatch.setattr(shared, "run_jobs", run_cut)
    case = Case(3, group, width, 5 * BLOCK - 3, rows, window, seed=parts)
    assert case.computed().tobytes() == case.naively().tobytes()
    assert len(ran) == 3  # scores, probabilities, mixes


def test_equal_scores_share_alike() -> None:
    case = Case(1, 1, 2, 0, 4, None, seed=1)
    case.q[:] = -0.0  # all scores are zeros of some sign
    y = case.computed()
    assert y.tobytes() == case.naively().tobytes()
    assert y[1].tobytes() == ((0.0 + 0.5 * case.v[0]) + 0.5 * case.v[1]).tobytes()


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("place", [0, 7, BLOCK, BLOCK + 8])
def test_a_visible_score_that_is_not_finite_is_told(bad: float, place: int) -> None:
    # an infinity of the right sign would vanish in the softmax
    case = Case(1, 2, 4, BLOCK + 6, 3, None, seed=2)
    case.k[place] = bad
    store_rows(case.k, case.v, 0, case.table, case.keys, case.values)
    assert not case.attend(np.empty_like(case.q))
    if place:  # a row that does not see it is told nothing
        case.q, case.first, case.last = case.q[:1], case.first[:1], np.array([place])
        assert case.attend(np.empty_like(case.q))


def test_only_the_part_that_met_it_tells() -> None:
    case = Case(3, 1, 4, 0, 4, None, seed=3)
    case.k[2, 4:8] = math.inf  # head 1
    store_rows(case.k, case.v, 0, case.table, case.keys, case.values)
    told = [int(case.of_part(part, 3)[1][part]) for part in range(3)]
    assert told == [1, 0, 1]
