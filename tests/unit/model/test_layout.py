"""Layouts, batches and targets that contradict themselves are refused before anything is computed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from unit.model import models
from zeroulp.model import operations
from zeroulp.model.cache.transaction import Transaction
from zeroulp.model.composition.head import TextOutputHead
from zeroulp.model.composition.language_model import LanguageModel
from zeroulp.model.composition.layout import SequenceLayout
from zeroulp.model.composition.segment import segments_of
from zeroulp.model.composition.targets import Targets
from zeroulp.model.composition.text_batch import TextBatch
from zeroulp.model.compute_team import ComputeTeam
from zeroulp.model.context import Execution, NoGrad
from zeroulp.model.errors import (
    CallError,
    EmptyPrompt,
    InvalidArgument,
    MalformedLayout,
    TokenOutOfRange,
    ZeroulpError,
)
from zeroulp.model.kernels.arrays import I64
from zeroulp.model.recording import Recording
from zeroulp.model.tensors import Tensor

POSITIONS = [[0, 1, 2], [0, 1, 2]]


def integers(values: Any) -> I64:
    return np.array(values, np.int64)


def layout(**changed: Any) -> SequenceLayout:
    given: dict[str, Any] = {"active": [3, 2], "starts": [[0, 0, 0], [0, 0, 1]], "positions": POSITIONS}
    before = changed.pop("before", 0)
    arrays = {name: integers(values) for name, values in (given | changed).items()}
    return SequenceLayout(**arrays, before=before)


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"positions": [0, 1, 2]}, r"positions have the shape \[3\]; \[B, T\] is needed"),
    ({"active": [3]}, r"active \[1\], starts \[2, 3\] and positions \[2, 3\] were given"),
    ({"active": [[3, 2]]}, r"active \[1, 2\]"),
    ({"starts": [[0, 0, 0]]}, r"starts \[1, 3\]"),
    ({"active": [], "starts": np.empty((0, 3)), "positions": np.empty((0, 3))}, "0 rows of 3 cells were"),
    ({"starts": [[], []], "positions": [[], []]}, "2 rows of 0 cells were given; at least 1 of each"),
    ({"before": -1}, "-1 cells before the first were given; at least 0 are there"),
    ({"active": [3, 0]}, "row 1 has 0 active cells; 1 to 3 are allowed"),
    ({"active": [4, 2]}, "row 0 has 4 active cells; 1 to 3 are allowed"),
    ({"starts": [[0, 0, 3], [0, 0, 0]]}, "row 0, cell 2 starts at 3; 0 to 2 are allowed"),
    ({"starts": [[0, 0, 0], [-1, 0, 0]]}, "row 1, cell 0 starts at -1; 0 to 0 are allowed"),
    ({"starts": [[0, 0, 6], [0, 0, 0]], "before": 3}, "row 0, cell 2 starts at 6; 0 to 5 are allowed"),
    ({"starts": [[0, 1, 0], [0, 0, 0]]}, "row 0, cell 2 starts before the cell that precedes it"),
    ({"positions": [[0, 1, 2], [0, -1, 2]]}, "row 1, cell 1 has the position -1; 0 is the least"),
]


@pytest.mark.parametrize(("changed", "message"), REFUSED)
def test_layouts_that_contradict_themselves(changed: dict[str, Any], message: str) -> None:
    assert layout().shape == (2, 3)
    with pytest.raises(MalformedLayout, match=message):
        layout(**changed)


@pytest.mark.parametrize("documents", [[[2, 0]], [[3], [1, -1]]])
def test_packed_documents_without_cells(documents: list[list[int]]) -> None:
    with pytest.raises(MalformedLayout, match="each needs at least 1"):
        SequenceLayout.packed(documents)


@pytest.mark.parametrize("lengths", [[], [0], [2, 0], [2, -1]])
def test_padded_rows_without_cells(lengths: list[int]) -> None:
    with pytest.raises(MalformedLayout):
        SequenceLayout.padded(lengths)


@pytest.mark.parametrize(("before", "count"), [(-1, 2), (0, 0), (3, -1)])
def test_continuations_without_cells(before: int, count: int) -> None:
    with pytest.raises(MalformedLayout, match=f"{count} cells after {before} were given"):
        SequenceLayout.continued(before, count)


def fields_of(given: SequenceLayout) -> tuple[Any, ...]:
    arrays = (given.active, given.starts, given.positions)
    return (*(array.tolist() for array in arrays), given.before, given.highest_position)


@pytest.mark.parametrize(("before", "count"), [(0, 1), (0, 4), (5, 1), (7, 3)])
def test_a_continuation_passes_the_checks_that_it_is_spared(before: int, count: int) -> None:
    quick = SequenceLayout.continued(before, count)
    checked = SequenceLayout(quick.active, quick.starts, quick.positions, quick.before)
    assert fields_of(quick) == fields_of(checked)
    assert {array.dtype for array in (quick.active, quick.starts, quick.positions)} == {np.dtype(np.int64)}


def test_parts_of_a_row() -> None:
    row = SequenceLayout.packed([[2, 3]])
    part = row.part(1, 3)
    assert fields_of(part) == ([3], [[0, 2, 2]], [[1, 0, 1]], 1, 1)
    assert fields_of(part.part(1, 1)) == ([1], [[2]], [[0]], 2, 0)
    for first, count in ((-1, 2), (0, 0), (3, 3), (5, 1)):
        with pytest.raises(MalformedLayout, match=f"cells {first} to {first + count} of rows of"):
            row.part(first, count)
    for other in (SequenceLayout.plain(2, 3), SequenceLayout.padded([2], 3)):
        with pytest.raises(MalformedLayout, match="one full row has parts"):
            other.part(0, 1)


def test_what_was_checked_stays_so() -> None:
    positions = integers(POSITIONS)
    made = SequenceLayout(integers([3, 3]), np.zeros((2, 3), np.int64), positions)
    positions[:] = -5
    assert made.positions.tolist() == POSITIONS
    for given in (made, SequenceLayout.continued(1, 2)):
        for array in (given.active, given.starts, given.positions):
            with pytest.raises(ValueError, match="read-only"):
                array[...] = 9


def test_a_layout_goes_on_where_the_cache_ends(context: NoGrad) -> None:
    model = models.seeded(models.SMALL, 1)
    transaction = Transaction(model.new_cache(models.pool_for(model, 8)), 4)
    with pytest.raises(MalformedLayout, match="row 0 continues at cell 2; its cache ends at cell 0"):
        segments_of(model.configuration, SequenceLayout.continued(2, 2), [transaction])


BATCHES: list[tuple[Any, type[ZeroulpError], str]] = [
    (lambda: TextBatch.of([]), EmptyPrompt, "no documents were given; at least one is needed"),
    (lambda: TextBatch.of([[1], []]), EmptyPrompt, "document 1 has no tokens; at least one is needed"),
    (lambda: TextBatch.packed([]), EmptyPrompt, "a row without documents or a document without tokens"),
    (lambda: TextBatch.packed([[[1]], []]), EmptyPrompt, "a row without documents"),
    (lambda: TextBatch.packed([[[1], []]]), EmptyPrompt, "a document without tokens"),
    (
        lambda: TextBatch(integers([[1, 2, 3, 4]]), SequenceLayout.plain(2, 2)),
        MalformedLayout,
        r"ids \[1, 4\] were given for a layout of \[2, 2\]",
    ),
    (
        lambda: TextBatch(integers([1, 2]), SequenceLayout.plain(1, 2)),
        MalformedLayout,
        r"ids \[2\] were given for a layout of \[1, 2\]",
    ),
]


@pytest.mark.parametrize(("made", "error", "message"), BATCHES)
def test_batches_that_are_none(made: Any, error: type[ZeroulpError], message: str) -> None:
    with pytest.raises(error, match=message):
        made()


@pytest.fixture
def model() -> LanguageModel:
    return models.seeded(models.SMALL, 2)


@pytest.fixture(params=[False, True], ids=["free", "recording"])
def execution(request: pytest.FixtureRequest, teams: dict[int, ComputeTeam]) -> Execution[Any]:
    return Recording(teams[1]) if request.param else NoGrad(teams[1])


@pytest.mark.parametrize("token", [-1, 29, 2**40])
def test_ids_outside_the_vocabulary(model: LanguageModel, execution: Execution[Any], token: int) -> None:
    seen: list[str] = []
    watched = execution.observed_by(lambda layer, stage, values: seen.append(stage))
    with pytest.raises(
        TokenOutOfRange, match=f"row 1, cell 1 is {token}; the vocabulary has the ids 0 to 28"
    ):
        model.batch_logits(watched, TextBatch.of([[1, 2, 3], [4, token]]))
    assert not seen


BATCH = TextBatch.of([[1, 2, 3], [4, 5]])
IDS = [[1, 2, 3], [4, 5, -1]]
VALID = [[True, True, True], [True, True, False]]
TARGETS: list[tuple[Any, Any, type[CallError], str]] = [
    (
        IDS[:1],
        VALID,
        InvalidArgument,
        r"targets \[1, 3\] with a mask \[2, 3\] were given for a batch of \[2, 3\]",
    ),
    (IDS, VALID[0], InvalidArgument, r"targets \[2, 3\] with a mask \[3\] were given"),
    (IDS, [[False] * 3] * 2, InvalidArgument, "the mask counts no target, or one in a padded cell"),
    (IDS, [[True] * 3] * 2, InvalidArgument, "or one in a padded cell; at least one is needed, all in cells"),
    ([[1, 29, 3], [4, 5, 0]], VALID, TokenOutOfRange, "target of row 0, cell 1 is 29; .* the ids 0 to 28"),
    ([[1, 2, 3], [4, -1, 0]], VALID, TokenOutOfRange, "the target of row 1, cell 1 is -1"),
]


@pytest.mark.parametrize(("ids", "valid", "error", "message"), TARGETS)
def test_targets_are_checked_before_anything_is_computed(
    model: LanguageModel,
    execution: Execution[Any],
    ids: Any,
    valid: Any,
    error: type[CallError],
    message: str,
) -> None:
    seen: list[str] = []
    watched = execution.observed_by(lambda layer, stage, values: seen.append(stage))
    assert model.loss(execution, BATCH, Targets(integers(IDS), np.array(VALID))).shape == ()
    with pytest.raises(error, match=message) as refused:
        model.loss(watched, BATCH, Targets(integers(ids), np.array(valid)))
    assert [violation.field for violation in refused.value.violations] == ["targets"]
    assert not seen


def test_hidden_rows_of_another_layout(model: LanguageModel, context: NoGrad) -> None:
    hidden = Tensor(np.ones((1, 4, 12)))
    for other in (SequenceLayout.plain(2, 2), SequenceLayout.plain(1, 3)):
        with pytest.raises(MalformedLayout, match=r"shape \[1, 4, 12\] was given for a layout of"):
            TextOutputHead(model.table).batch_logits(context, hidden, other)
    with pytest.raises(MalformedLayout, match=r"\[B, T, features\] is needed"):
        operations.to_rows(context, Tensor(np.ones((4, 12))), SequenceLayout.plain(1, 4).cells)
