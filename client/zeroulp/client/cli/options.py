"""Options that several commands share, and the types of their values."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable

from zeroulp.client.generate_request import GenerateOptions
from zeroulp.client.sampling import Sampling

DEFAULT_TARGET = "127.0.0.1:50051"
MAX_RUN = 1 << 20
"""Positions in one run: more than any model has, and no burden to list."""


def add_connection(parser: argparse.ArgumentParser) -> None:
    """Add --target and --json."""
    parser.add_argument(
        "--target",
        metavar="HOST:PORT",
        default=os.environ.get("ZEROULP_TARGET", DEFAULT_TARGET),
        help=f"the daemon's address (default: $ZEROULP_TARGET, or else {DEFAULT_TARGET})",
    )
    parser.add_argument(
        "--json",
        action="store_true",
        help="write one JSON object a line to stdout; an error is one JSON object on stderr",
    )


def add_generation(parser: argparse.ArgumentParser) -> None:
    """Add what shapes a generation."""
    group = parser.add_argument_group("generation")
    group.add_argument(
        "--max-new-tokens", type=unsigned(32), metavar="N", help="default: until the model ends"
    )
    group.add_argument("--temperature", type=float, default=0.0, help="default: 0, which is greedy")
    group.add_argument("--top-k", type=unsigned(32), metavar="K", help="keep the K most likely")
    group.add_argument("--top-p", type=float, metavar="P", help="keep the fewest that sum to P, in (0, 1]")
    group.add_argument(
        "--min-p", type=float, metavar="P", help="keep those at least P as likely as the first"
    )
    group.add_argument("--repetition-penalty", type=float, metavar="X", help="1 changes nothing")
    group.add_argument("--presence-penalty", type=float, metavar="X", help="0 changes nothing")
    group.add_argument("--frequency-penalty", type=float, metavar="X", help="0 changes nothing")
    group.add_argument("--seed", type=unsigned(64), help="default: the server draws one and tells it")
    group.add_argument(
        "--stop", type=text, action="append", default=[], metavar="TEXT", help="end before it; repeatable"
    )
    group.add_argument("--ignore-end-tokens", action="store_true", help="go on past the model's end tokens")


def generation_options(args: argparse.Namespace) -> GenerateOptions:
    """Return what ``add_generation``'s options ask for."""
    options = GenerateOptions(
        sampling=Sampling(
            temperature=args.temperature,
            top_k=args.top_k,
            top_p=args.top_p,
            min_p=args.min_p,
            repetition_penalty=args.repetition_penalty,
            presence_penalty=args.presence_penalty,
            frequency_penalty=args.frequency_penalty,
            seed=args.seed,
        ),
        stop=args.stop,
        ignore_end_tokens=args.ignore_end_tokens,
    )
    if args.max_new_tokens is not None:
        options["max_new_tokens"] = args.max_new_tokens
    return options


def unsigned(bits: int) -> Callable[[str], int]:
    """Return the type of whole numbers that fit into ``bits`` bits."""

    def number(argument: str) -> int:
        value = int(argument)
        if not 0 <= value < 1 << bits:
            raise argparse.ArgumentTypeError(f"{argument} is not in [0, 2**{bits})")
        return value

    return number


def token_ids(argument: str) -> list[int]:
    """Type of "0,99,100": ids with commas between them, or nothing for none."""
    return [unsigned(32)(item) for item in argument.split(",")] if argument.strip() else []


def positions(argument: str) -> tuple[int, ...]:
    """Type of "0,3-7": positions and runs of them, in any order; each is taken once."""
    found: set[int] = set()
    for item in argument.split(","):
        first, dash, last = item.partition("-")
        start = unsigned(32)(first)
        end = unsigned(32)(last) if dash else start
        if end < start or end - start >= MAX_RUN:
            raise argparse.ArgumentTypeError(f"{item} is not a run of 1 to {MAX_RUN} positions")
        found.update(range(start, end + 1))
    return tuple(sorted(found))


def text(argument: str) -> str:
    """Type of text that a message can hold."""
    try:
        argument.encode()
    except UnicodeEncodeError:
        raise argparse.ArgumentTypeError("it is not valid UTF-8") from None
    return argument


def text_or_stdin(argument: str) -> str:
    """Return the argument, or for "-" all of stdin as it stands; raises UnicodeError if that is no UTF-8."""
    return sys.stdin.buffer.read().decode() if argument == "-" else argument
