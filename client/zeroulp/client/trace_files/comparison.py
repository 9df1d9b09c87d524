"""Two files of tensors, bit by bit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from zeroulp.client.trace_files.errors import TraceFileBroken
from zeroulp.client.trace_files.trace_file import TraceFile
from zeroulp.client.trace_files.ulps import bits_of_values, ulps_between


@dataclass(frozen=True, slots=True)
class ValuePair:
    """One value in both files; ``ulps`` is None where one of them is a NaN."""

    position: int
    feature: int
    a: float
    b: float
    ulps: int | None


@dataclass(frozen=True, slots=True)
class TensorComparison:
    """One tensor that both files hold, at the positions that they have in common."""

    name: str
    types: tuple[str, str]
    positions: int
    values: int
    differing: int
    """Values whose bits differ: +0.0 and -0.0 do, and so do two NaNs with other bits."""
    max_ulps: int | None
    """The largest distance; None where nothing differs, or only NaNs do."""
    first: ValuePair | None
    """The lowest feature of the lowest position that differs."""


@dataclass(frozen=True, slots=True)
class ShapeMismatch:
    """A tensor that both files hold with other axes or another number of features."""

    name: str
    shapes: tuple[tuple[int, ...], tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Comparison:
    """What two files have in common, in the order in which it was computed, and what they have not."""

    tensors: tuple[TensorComparison, ...]
    mismatches: tuple[ShapeMismatch, ...]
    only_a: tuple[str, ...]
    only_b: tuple[str, ...]
    notes: tuple[str, ...]
    """What the files themselves say differently about their tensors; values are compared all the same."""

    @property
    def first(self) -> TensorComparison | None:
        """The first tensor that differs."""
        return next((tensor for tensor in self.tensors if tensor.differing), None)

    @property
    def equal(self) -> bool:
        """Whether both hold the same tensors, with the same bits at the positions in common."""
        return self.first is None and not (self.mismatches or self.only_a or self.only_b)


def compare(a: TraceFile, b: TraceFile) -> Comparison:
    """Compare two files; raises TraceFileBroken if they have no tensor or no position in common."""
    # The order is that of a file that tells it.
    leading = b.tensors if a.facts.order is None and b.facts.order is not None else a.tensors
    common = [name for name in leading if name in a.tensors and name in b.tensors]
    if not common:
        raise TraceFileBroken("no tensor has the same name in both")
    mismatches = [name for name in common if not _comparable(_shape_of(a, name), _shape_of(b, name))]
    tensors = tuple(_compared(a, b, name) for name in common if name not in mismatches)
    if tensors and not any(tensor.positions for tensor in tensors):
        raise TraceFileBroken("no position is in both")
    return Comparison(
        tensors,
        tuple(ShapeMismatch(name, (a.tensors[name].shape, b.tensors[name].shape)) for name in mismatches),
        tuple(name for name in a.tensors if name not in b.tensors),
        tuple(name for name in b.tensors if name not in a.tensors),
        tuple(_notes(a, b)),
    )


def _shape_of(file: TraceFile, name: str) -> tuple[int, ...]:
    """Return a tensor's shape without the axis of a batch of one."""
    shape = file.tensors[name].shape
    return shape[1:] if len(shape) == 3 and shape[0] == 1 else shape


def _comparable(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    return len(a) == len(b) == 2 and a[1] == b[1]


def _compared(a: TraceFile, b: TraceFile, name: str) -> TensorComparison:
    positions, rows_a, rows_b = np.intersect1d(
        a.positions_of(name), b.positions_of(name), return_indices=True
    )
    left = a.widened(name).reshape(_shape_of(a, name))[rows_a]  # [positions, features]
    right = b.widened(name).reshape(_shape_of(b, name))[rows_b]
    rows, features = np.nonzero(bits_of_values(left) != bits_of_values(right))  # ascending by row, feature
    pairs = left[rows, features], right[rows, features]  # each [differing]
    ulps = ulps_between(*map(bits_of_values, pairs))
    placed = ~(np.isnan(pairs[0]) | np.isnan(pairs[1]))
    first = None
    if rows.size:
        first = ValuePair(
            int(positions[rows[0]]),
            int(features[0]),
            float(pairs[0][0]),
            float(pairs[1][0]),
            int(ulps[0]) if placed[0] else None,
        )
    return TensorComparison(
        name,
        (a.type_of(name), b.type_of(name)),
        int(positions.size),
        int(left.size),
        int(rows.size),
        _largest(ulps[placed]),
        first,
    )


def _largest(ulps: NDArray[np.uint64]) -> int | None:
    return int(ulps.max()) if ulps.size else None


def _notes(a: TraceFile, b: TraceFile) -> Iterator[str]:
    for told, name in (
        ("parameters_digest", "the digests of the parameters"),
        ("arithmetic_version", "the versions of the arithmetic"),
    ):
        values = getattr(a.facts, told), getattr(b.facts, told)
        if None not in values and values[0] != values[1]:
            yield f"{name} differ: {values[0]} and {values[1]}"
    tokens_a, tokens_b = _tokens(a), _tokens(b)
    for position in sorted(tokens_a.keys() & tokens_b.keys()):
        pair = tokens_a[position], tokens_b[position]
        if pair[0] != pair[1]:
            yield f"the tokens differ from position {position} on: {pair[0]} and {pair[1]}"
            return


def _tokens(file: TraceFile) -> dict[int, int]:
    """Return the token at each position that the file tells one for."""
    first, ids = file.facts.first_position or 0, file.facts.token_ids or ()
    return dict(enumerate(ids, first))
