"""``zeroulp diff``: where two files of tensors part."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from zeroulp.client.bits import bits_of
from zeroulp.client.cli.extras import needing
from zeroulp.client.cli.failure import CommandFailed, report
from zeroulp.client.cli.output import emit, f64_fields, say

if TYPE_CHECKING:
    from zeroulp.client.trace_files.comparison import Comparison, TensorComparison, ValuePair
    from zeroulp.client.trace_files.trace_file import TraceFile

NAME = "diff"
HELP = "compare two files that zeroulp trace has written"
EXTRA = "trace"
DIFFERENT = 1
TROUBLE = 2


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.description = (
        "Compare two files of tensors, .safetensors or .npz, bit by bit, and name the first value that "
        "differs: first in the order of the pass, then by position, then by feature. Positions that only one "
        "file has are left out, so that a cached pass can be compared with a full one. Values of float32, "
        "float16 and bfloat16 are widened exactly; distances are counted in ulps of float64. +0.0 and -0.0 "
        "are different bits (0 ulps apart), and so are NaNs of different bits, which have no distance."
    )
    parser.epilog = (
        "exit codes: 0 the same tensors with the same bits; 1 a difference, a tensor in one file only, or "
        "another shape; 2 the files cannot be compared"
    )
    parser.add_argument("a", type=Path, metavar="A")
    parser.add_argument("b", type=Path, metavar="B")
    parser.add_argument("--json", action="store_true", help="write one JSON object to stdout")


def run(args: argparse.Namespace) -> int:
    """Compare, and return the exit code."""
    try:
        a, b, comparison = _compared(args.a, args.b)
    except CommandFailed as failed:
        report(failed, as_json=args.json)
        return TROUBLE
    if args.json:
        _emit(comparison)
    else:
        _say(args.a, a, args.b, b, comparison)
    return 0 if comparison.equal else DIFFERENT


def _compared(path_a: Path, path_b: Path) -> tuple[TraceFile, TraceFile, Comparison]:
    with needing(EXTRA, "diff"):
        from zeroulp.client.trace_files.comparison import compare
        from zeroulp.client.trace_files.errors import TraceFileBroken
        from zeroulp.client.trace_files.trace_file import read
    files = []
    for path in (path_a, path_b):
        try:
            files.append(read(path))
        except TraceFileBroken as broken:
            raise CommandFailed(f"{path}: {broken}") from broken
    try:
        return files[0], files[1], compare(*files)
    except TraceFileBroken as broken:
        raise CommandFailed(f"{path_a} and {path_b} cannot be compared: {broken}") from broken


def _emit(comparison: Comparison) -> None:
    first = comparison.first
    emit(
        equal=comparison.equal,
        first=None if first is None or first.first is None else _pair_fields(first.name, first.first),
        tensors=[
            {field: value for field, value in asdict(tensor).items() if field != "first"}
            for tensor in comparison.tensors
        ],
        shape_mismatches=[asdict(mismatch) for mismatch in comparison.mismatches],
        only_a=comparison.only_a,
        only_b=comparison.only_b,
        notes=comparison.notes,
    )


def _pair_fields(name: str, pair: ValuePair) -> dict[str, object]:
    return {
        "tensor": name,
        "position": pair.position,
        "feature": pair.feature,
        **f64_fields("a", pair.a),
        **f64_fields("b", pair.b),
        "ulps": pair.ulps,
    }


def _say(path_a: Path, a: TraceFile, path_b: Path, b: TraceFile, comparison: Comparison) -> None:
    for letter, path, file in (("A", path_a, a), ("B", path_b, b)):
        types = sorted({file.type_of(name) for name in file.tensors})
        told = f", model {file.facts.model}" if file.facts.model else ""
        say(f"{letter}: {path}, {len(file.tensors)} tensors of {' and '.join(types)}{told}")
    for note in comparison.notes:
        say(f"note: {note}")
    for mismatch in comparison.mismatches:
        in_a, in_b = map(list, mismatch.shapes)
        say(f"other shapes: {mismatch.name} is {in_a} in A and {in_b} in B")
    for letter, names in (("A", comparison.only_a), ("B", comparison.only_b)):
        if names:
            say(f"only in {letter}: {', '.join(names)}")
    _say_tensors(comparison.tensors)
    first = comparison.first
    if first is not None and first.first is not None:
        _say_first(first, first.first)


def _say_tensors(tensors: tuple[TensorComparison, ...]) -> None:
    differing = [tensor for tensor in tensors if tensor.differing]
    values = sum(tensor.values for tensor in tensors)
    same = len(tensors) - len(differing)
    say(f"{len(tensors)} tensors compared, {values:,} values in all: {same} equal in every bit")
    if not differing:
        return
    width = max(len(tensor.name) for tensor in differing)
    say(f"{'tensor':<{width}}  positions      values   differing  largest distance in ulps")
    for tensor in differing:
        largest = "none (NaN)" if tensor.max_ulps is None else f"{tensor.max_ulps}"
        narrow = "" if tensor.types[0] == tensor.types[1] else f"  ({' against '.join(tensor.types)})"
        say(
            f"{tensor.name:<{width}}  {tensor.positions:>9}  {tensor.values:>10}  {tensor.differing:>10}  "
            f"{largest}{narrow}"
        )


def _say_first(tensor: TensorComparison, pair: ValuePair) -> None:
    say(f"first difference: {tensor.name}, position {pair.position}, feature {pair.feature}")
    for letter, value, kind in (("A", pair.a, tensor.types[0]), ("B", pair.b, tensor.types[1])):
        widened = "" if kind == "float64" else f"  (widened from {kind})"
        say(f"  {letter}  {value!r:>24}  {bits_of(value)}{widened}")
    distance = "none, as one is a NaN" if pair.ulps is None else f"{pair.ulps} ulp{'s' * (pair.ulps != 1)}"
    say(f"  distance: {distance}")
