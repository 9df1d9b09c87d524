"""``zeroulp trace``: what a pass computes on its way."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path

from zeroulp.client.bits import bits_of
from zeroulp.client.cli.extras import needing
from zeroulp.client.cli.failure import CommandFailed
from zeroulp.client.cli.options import add_connection, positions, text, text_or_stdin, token_ids, unsigned
from zeroulp.client.cli.output import emit, json_number, say
from zeroulp.client.client import Client
from zeroulp.client.trace import Trace
from zeroulp.client.trace_tensor import DISPLAY_LIMIT, SAMPLE_EDGE, SampleRow, TraceTensor

NAME = "trace"
HELP = "the model's map, and the tensors that a pass computes"
EXTRA = "trace"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.description = (
        "Run one pass over a prompt, without a session, and tell the tensors that it computes. Without "
        "--out the model's map is shown as a tree, and then each tensor with its shape and its values: all "
        f"of up to {DISPLAY_LIMIT}, of a larger tensor the first and last {SAMPLE_EDGE} features of the "
        "first and last position. With --out all values are written to a file, which zeroulp diff compares "
        "with another. With --json there is a line for the start, one a tensor, one for the end, and no map."
    )
    given = parser.add_mutually_exclusive_group(required=True)
    given.add_argument("--prompt", type=text, metavar="TEXT", help="text; - reads all of stdin")
    given.add_argument("--ids", type=token_ids, metavar="I,I,...", help="token ids instead of text")
    parser.add_argument(
        "--cached-prefix",
        type=unsigned(32),
        metavar="N",
        help="prefill N tokens first, and trace the others as they are decoded over that cache "
        "(default: a full forward)",
    )
    parser.add_argument(
        "--name",
        action="append",
        default=[],
        metavar="PATTERN",
        help="tensors to trace, such as 'blocks.0.*'; repeatable (default: all)",
    )
    parser.add_argument(
        "--positions", type=positions, default=(), metavar="P,P-P,...", help="such as 0,3-7 (default: all)"
    )
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help="write the tensors to FILE.safetensors or FILE.npz"
    )
    add_connection(parser)


def run(args: argparse.Namespace) -> int:
    """Trace, and return the exit code."""
    if args.out is not None:
        _check_out(args.out)
    elif not args.json:
        with needing(EXTRA, "the map"):
            from zeroulp.client.cli.map_tree import say_map
    tokens = args.ids if args.ids is not None else text_or_stdin(args.prompt)
    with Client(args.target) as client:
        with client.trace(
            tokens, cached_prefix=args.cached_prefix, names=args.name, positions=args.positions
        ) as trace:
            if args.out is None and not args.json:
                say_map(client.model())
            _start(trace, as_json=args.json)
            tensors = []
            for tensor in trace:
                _tell(tensor, as_json=args.json, whole=args.out is not None)
                if args.out is not None:
                    tensors.append(tensor)
        if args.out is not None:
            _write(args.out, trace, tensors)
    _end(trace, args.out, as_json=args.json)
    return 0


def _check_out(out: Path) -> None:
    """Raise CommandFailed before anything is computed if the file could not be written."""
    with needing(EXTRA, "--out"):
        from zeroulp.client.trace_files import trace_file
        from zeroulp.client.trace_files.errors import TraceFileBroken
    try:
        trace_file.check_format(out)
    except TraceFileBroken as broken:
        raise CommandFailed(f"{out}: {broken}") from broken
    if not out.parent.is_dir():
        raise CommandFailed(f"{out}: there is no folder {out.parent}")


def _write(out: Path, trace: Trace, tensors: list[TraceTensor]) -> None:
    from zeroulp.client.trace_files.errors import TraceFileBroken
    from zeroulp.client.trace_files.traced import write_trace

    try:
        write_trace(out, trace, tensors)
    except TraceFileBroken as broken:
        raise CommandFailed(f"{out}: {broken}") from broken


def _start(trace: Trace, *, as_json: bool) -> None:
    if as_json:
        emit(
            event="started",
            token_ids=trace.token_ids,
            first_position=trace.first_position,
            positions=trace.positions,
            model=trace.model_name,
            parameters_digest=trace.parameters_digest,
            arithmetic_version=trace.arithmetic_version,
            tensors=len(trace.tensors),
        )
    else:
        say(f"tokens {','.join(map(str, trace.token_ids))}; positions {_span_of(trace.positions)}")


def _span_of(positions: tuple[int, ...]) -> str:
    """Return ascending positions as runs: "0, 3-7"."""
    runs: list[list[int]] = []
    for position in positions:
        if runs and position == runs[-1][1] + 1:
            runs[-1][1] = position
        else:
            runs.append([position, position])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def _tell(tensor: TraceTensor, *, as_json: bool, whole: bool) -> None:
    """Tell a tensor, unless its values go to a file and people read the output."""
    if as_json:
        emit(
            event="tensor",
            name=tensor.name,
            shape=tensor.shape,
            sample=[_fields_of(row) for row in tensor.sample()],
        )
    elif not whole:
        say(f"{tensor.name} {list(tensor.shape)}")
        for row in tensor.sample():
            say(f"{row.position:>6}: {_line_of(row)}")


def _fields_of(row: SampleRow) -> dict[str, object]:
    return {
        "position": row.position,
        "features": row.features,
        "values": [json_number(value) for value in row.values],
        "bits": [bits_of(value) for value in row.values],
    }


def _line_of(row: SampleRow) -> str:
    """Return the values, with dots where features are left out."""
    words: list[str] = []
    for index, (feature, value) in enumerate(zip(row.features, row.values, strict=True)):
        if index and feature != row.features[index - 1] + 1:
            words.append("...")
        words.append(f"{value:.9g}")
    return "  ".join(words)


def _end(trace: Trace, out: Path | None, *, as_json: bool) -> None:
    if as_json:
        emit(event="finished", out=None if out is None else str(out), work=asdict(trace.work))
        return
    if out is not None:
        say(f"{len(trace.tensors)} tensors at {len(trace.positions)} positions written to {out}")
    work = trace.work
    say(
        f"work: {work.token_forwards} token forwards, {work.cache_appends} cache appends, "
        f"{work.attention_score_values} attention score values"
    )
