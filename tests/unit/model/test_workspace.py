"""Workspace memory is used again, but never while somebody may still read it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from zeroulp.model.kernels.arrays import F64
from zeroulp.model.workspace import Workspace

SIZES = st.lists(
    st.lists(st.tuples(st.integers(1, 9), st.integers(1, 40)), max_size=6), min_size=1, max_size=8
)


@given(SIZES)
def test_arrays_survive_until_the_turn_after_the_next(turns: list[list[tuple[int, int]]]) -> None:
    workspace, number = Workspace(), 0.0
    before: list[tuple[F64, float]] = []
    for sizes in turns:
        workspace.turn()
        now = []
        for rows, features in sizes:
            array = workspace.rows(rows, features)
            assert array.shape == (rows, features)
            assert array.flags.c_contiguous
            assert array.ctypes.data % 64 == 0
            number += 1.0
            array[...] = number
            now.append((array, number))
        for array, value in [*before, *now]:
            assert (array == value).all()
        before = now


def test_memory_is_used_again() -> None:
    workspace = Workspace()
    places = []
    for _ in range(9):
        workspace.turn()
        places.append([workspace.rows(4, 5).ctypes.data, workspace.rows(2, 3).ctypes.data])
    assert places[-1] == places[-3] == places[-5]
    assert places[-2] == places[-4]
    assert places[-1] != places[-2]


def test_growing_keeps_old_arrays() -> None:
    workspace = Workspace()
    workspace.turn()
    small = workspace.rows(2, 2)
    small[...] = 1.0
    large = workspace.rows(500, 500)
    large[...] = 2.0
    again = workspace.rows(2, 2)
    again[...] = 3.0
    assert (small == 1.0).all()
    assert (large == 2.0).all()
