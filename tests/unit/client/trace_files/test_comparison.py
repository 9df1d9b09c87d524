"""A file that was altered in one place is told to differ in that place, and in no other."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unit.client.trace_files.files import FACTS, ORDER, WIDTHS, file, tensors
from zeroulp.client.trace_files.comparison import ValuePair, compare
from zeroulp.client.trace_files.errors import TraceFileBroken
from zeroulp.client.trace_files.facts import Facts


@given(
    tensor=st.integers(0, len(ORDER) - 1),
    row=st.integers(0, 2),
    feature=st.integers(0, 10),
    steps=st.integers(1, 5),
)
def test_one_altered_value_is_named_exactly(tensor: int, row: int, feature: int, steps: int) -> None:
    arrays, name = tensors(), ORDER[tensor]
    feature %= WIDTHS[tensor]
    before = after = float(arrays[name][row, feature])
    for _ in range(steps):
        after = math.nextafter(after, math.inf)
    arrays[name][row, feature] = after
    comparison = compare(file(), file(arrays))
    assert not comparison.equal
    assert comparison.first is not None
    assert comparison.first.name == name
    assert comparison.first.first == ValuePair(4 + row, feature, before, after, steps)
    assert (comparison.first.differing, comparison.first.max_ulps) == (1, steps)
    assert [t.name for t in comparison.tensors if t.differing] == [name]
    assert [t.name for t in comparison.tensors] == list(ORDER)


def test_equal_files() -> None:
    comparison = compare(file(), file())
    assert comparison.equal
    assert comparison.first is None
    assert (comparison.mismatches, comparison.only_a, comparison.only_b, comparison.notes) == ((), (), (), ())
    assert [(t.values, t.differing, t.max_ulps) for t in comparison.tensors] == [
        (3 * width, 0, None) for width in WIDTHS
    ]


def test_the_first_difference_is_first_by_tensor_then_position_then_feature() -> None:
    arrays = tensors()
    for name, row, feature in (("logits", 0, 0), ("blocks.0.gate", 2, 0), ("blocks.0.gate", 1, 5)):
        arrays[name][row, feature] = -arrays[name][row, feature]
    # The formats reorder: what counts is the order that one of the files tells.
    shuffled = file(dict(sorted(arrays.items())), replace(FACTS, order=None))
    for comparison in (compare(file(), shuffled), compare(shuffled, file())):
        assert comparison.first is not None
        assert comparison.first.name == "blocks.0.gate"
        assert comparison.first.first is not None
        assert (comparison.first.first.position, comparison.first.first.feature) == (5, 5)
        assert comparison.first.differing == 2


def test_only_positions_in_common_are_compared() -> None:
    arrays = tensors()
    later = {name: values[1:].copy() for name, values in arrays.items()}
    comparison = compare(file(arrays), file(later, replace(FACTS, positions=(5, 6))))
    assert comparison.equal
    assert {tensor.positions for tensor in comparison.tensors} == {2}
    later["embed"][1, 2] = 7.0
    altered = compare(file(later, replace(FACTS, positions=(5, 6))), file(arrays))
    assert altered.first is not None
    assert altered.first.first is not None
    assert altered.first.first.position == 6
    with pytest.raises(TraceFileBroken, match="no position is in both"):
        compare(file(), file(facts=replace(FACTS, positions=(7, 8, 9))))


def test_tensors_of_one_file_and_other_shapes() -> None:
    arrays = tensors()
    left = {name: arrays[name] for name in ("embed", "blocks.0.query", "logits")}
    right = {
        "embed": arrays["embed"],
        "blocks.0.query": arrays["blocks.0.query"][:, :3],
        "logits": arrays["logits"][0],
        "final_norm": arrays["final_norm"],
    }
    comparison = compare(file(left), file(right))
    assert not comparison.equal
    assert comparison.first is None
    assert [(m.name, m.shapes) for m in comparison.mismatches] == [
        ("blocks.0.query", ((3, 4), (3, 3))),
        ("logits", ((3, 11), (11,))),
    ]
    assert (comparison.only_a, comparison.only_b) == ((), ("final_norm",))
    assert compare(file(right), file(left)).only_a == ("final_norm",)
    with pytest.raises(TraceFileBroken, match="no tensor has the same name"):
        compare(file({"a": arrays["embed"]}), file({"b": arrays["embed"]}))


def test_a_batch_of_one_is_no_other_shape() -> None:
    batched = {name: values[None] for name, values in tensors().items()}
    assert compare(file(), file(batched)).equal
    two = {name: np.concatenate([values, values]) for name, values in batched.items()}
    assert len(compare(file(), file(two)).mismatches) == len(ORDER)


@pytest.mark.parametrize("kind", [np.float32, np.float16])
def test_narrow_values_are_widened_exactly(kind: type) -> None:
    narrow: dict[str, Any] = {n: np.clip(values, -100, 100).astype(kind) for n, values in tensors().items()}
    wide = {name: values.astype(np.float64) for name, values in narrow.items()}
    assert compare(file(wide), file(narrow)).equal
    step = np.spacing(np.abs(narrow["embed"][0, 0]))
    wide["embed"][0, 0] = np.float64(narrow["embed"][0, 0]) + np.float64(step)
    comparison = compare(file(wide), file(narrow))
    assert comparison.first is not None
    assert comparison.first.types == ("float64", np.dtype(kind).name)
    assert comparison.first.max_ulps is not None
    # One step of the narrow type is that many of float64.
    assert comparison.first.max_ulps == 1 << (52 - np.finfo(kind).nmant)


def test_zeros_of_other_signs_differ_by_nothing() -> None:
    arrays, other = tensors(), tensors()
    arrays["embed"][1, 1], other["embed"][1, 1] = 0.0, -0.0
    first = compare(file(arrays), file(other)).first
    assert first is not None
    assert first.first is not None
    assert (first.differing, first.max_ulps, first.first.ulps) == (1, 0, 0)


def test_nans_are_equal_in_the_same_bits_only_and_have_no_distance() -> None:
    arrays, other = tensors(), tensors()
    arrays["embed"][1, 1] = other["embed"][1, 1] = np.nan
    assert compare(file(arrays), file(other)).equal
    other["embed"].view(np.uint64)[1, 1] += 1
    other["embed"][2, 2] = np.nan
    first = compare(file(arrays), file(other)).first
    assert first is not None
    assert first.first is not None
    assert (first.differing, first.max_ulps, first.first.ulps) == (2, None, None)
    other["embed"][2, 3] = math.nextafter(other["embed"][2, 3], math.inf)
    first = compare(file(arrays), file(other)).first
    assert first is not None
    assert (first.differing, first.max_ulps) == (3, 1)


def test_notes_tell_what_the_files_say_differently() -> None:
    other = Facts("tiny", "cd" * 32, "2", 3, (5, 6, 9, 8), (4, 5, 6), ORDER)
    notes = compare(file(), file(facts=other)).notes
    assert [note.split(":")[0] for note in notes] == [
        "the digests of the parameters differ",
        "the versions of the arithmetic differ",
        "the tokens differ from position 5 on",
    ]
    assert notes[2].endswith("7 and 9")
    assert compare(file(), file(facts=replace(FACTS, first_position=4, token_ids=(6, 7, 8)))).notes == ()
    assert compare(file(), file(facts=Facts(positions=(4, 5, 6)))).notes == ()
