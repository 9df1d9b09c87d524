"""Whole blocks that sessions begin with: found by comparing tokens, whatever the keys are."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unit.model import models
from zeroulp.model.kernels.cache_rows import BLOCK
from zeroulp.model.session import Session
from zeroulp.server.engine.prefix_index import PrefixIndex, chained_key
from zeroulp.server.engine.session_table import OpenSession

MODEL = models.seeded(models.SMALL, 1)
Key = Callable[[int, tuple[int, ...]], int]


def colliding_key(before: int, tokens: tuple[int, ...]) -> int:
    return 0


KEYS = pytest.mark.parametrize("key", [chained_key, colliding_key])


def opened(tokens: list[int]) -> OpenSession:
    return OpenSession("", Session(MODEL.new_cache(models.pool_for(MODEL)), list(tokens)))


def found(index: PrefixIndex, ids: list[int]) -> tuple[list[int], int] | None:
    longest = index.longest(ids)
    return None if longest is None else (longest[0].session.tokens, longest[1])


A, B = [1] * BLOCK, [2] * BLOCK


@KEYS
def test_the_longest_run_of_whole_blocks(key: Key) -> None:
    index = PrefixIndex(key)
    for tokens in ([*A, *A, 5], [*A, *B, *A], [*B, *B], A[:-1]):
        index.sync(opened(tokens))
    assert found(index, [*A, *B, *B, *A]) == ([*A, *B, *A], 2 * BLOCK)
    assert found(index, [*A, *A, 5]) == ([*A, *A, 5], 2 * BLOCK)
    assert found(index, [*B, *A]) == ([*B, *B], BLOCK)
    assert found(index, [*A[:-1], 3, *A]) is None
    assert found(index, A[:-1]) is None
    assert found(index, []) is None


@KEYS
def test_what_a_session_becomes(key: Key) -> None:
    index = PrefixIndex(key)
    one, two = opened([*A, *B]), opened(A)
    for session in (one, two):
        index.sync(session)
    index.check_integrity([one, two])
    two.session.tokens += [*A, 9]
    with pytest.raises(RuntimeError, match="prefix index"):
        index.check_integrity([one, two])
    index.sync(two)
    assert found(index, [*A, *A]) == (two.session.tokens, 2 * BLOCK)
    del one.session.tokens[BLOCK - 1 :]
    index.sync(one)
    assert found(index, [*A, *B]) == (two.session.tokens, BLOCK)
    one.session.tokens += [7, *B]  # other tokens where there were some before
    index.sync(one)
    assert found(index, [*A[:-1], 7, *B]) == (one.session.tokens, 2 * BLOCK)
    index.remove(two)
    assert found(index, A) is None
    index.check_integrity([one])
    with pytest.raises(RuntimeError, match="prefix index"):
        index.check_integrity([one, two])
    index.remove(one)
    index.remove(one)  # one that it does not know changes nothing
    index.check_integrity([])
    assert not index._holders


def test_rows_of_other_parameters_are_not_found() -> None:
    model = models.seeded(models.SMALL, 1)
    index = PrefixIndex()
    old = OpenSession("", Session(model.new_cache(models.pool_for(model)), list(A)))
    index.sync(old)
    gain = model.parameters["final_norm.gain"]
    gain.set_value(gain.values())
    assert found(index, A) is None
    new = OpenSession("", Session(model.new_cache(models.pool_for(model)), list(A)))
    index.sync(new)
    longest = index.longest(A)
    assert longest is not None
    assert longest[0] is new


RUNS = st.lists(st.sampled_from([1, 2]), max_size=4)
"""Sequences of blocks of one of two kinds, so that many begin alike."""


def tokens_of(run: list[int], rest: int) -> list[int]:
    return [token for kind in run for token in [kind] * BLOCK] + [1] * rest


def common_blocks(left: list[int], right: list[int]) -> int:
    blocks = 0
    while (blocks + 1) * BLOCK <= min(len(left), len(right)) and (
        left[: (blocks + 1) * BLOCK] == right[: (blocks + 1) * BLOCK]
    ):
        blocks += 1
    return blocks


@KEYS
@given(
    changes=st.lists(st.tuples(st.integers(0, 3), RUNS, st.integers(0, BLOCK - 1), st.booleans())),
    asked=RUNS,
    rest=st.integers(0, BLOCK - 1),
)
def test_any_history_finds_what_a_look_at_every_session_finds(
    key: Key, changes: list[tuple[int, list[int], int, bool]], asked: list[int], rest: int
) -> None:
    index, sessions = PrefixIndex(key), [opened([]) for _ in range(4)]
    known: set[int] = set()
    for number, run, more, closes in changes:
        if closes:
            index.remove(sessions[number])
            known.discard(number)
            sessions[number] = opened([])
            continue
        tokens = sessions[number].session.tokens
        index.sync(sessions[number])  # as every change is told: first cut, then grown
        same = common_blocks(tokens, tokens_of(run, more)) * BLOCK
        del tokens[same:]
        index.sync(sessions[number])
        tokens += tokens_of(run, more)[same:]
        index.sync(sessions[number])
        known.add(number)
        index.check_integrity([sessions[one] for one in sorted(known)])
    ids = tokens_of(asked, rest)
    best = max((common_blocks(sessions[one].session.tokens, ids) for one in known), default=0)
    longest = index.longest(ids)
    assert (longest is None) == (best == 0)
    if longest is not None:
        assert longest[1] == best * BLOCK
        assert longest[0].session.tokens[: longest[1]] == ids[: longest[1]]
