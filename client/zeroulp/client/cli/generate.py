"""``zeroulp generate``: one prompt, continued."""

from __future__ import annotations

import argparse
import sys

from zeroulp.client.cli.events import emit_finished, emit_started, emit_token
from zeroulp.client.cli.options import (
    add_connection,
    add_generation,
    generation_options,
    text,
    text_or_stdin,
    token_ids,
    unsigned,
)
from zeroulp.client.cli.output import say
from zeroulp.client.cli.rate import Rate
from zeroulp.client.client import Client
from zeroulp.client.generation import Generation
from zeroulp.client.token import Token

NAME = "generate"
HELP = "continue a prompt"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.description = (
        "Continue a prompt. The text goes to stdout as it arrives, statistics to stderr. With "
        "--log-probabilities or --top-entries, a line per token takes the text's place. With --json "
        "the lines are started, token (log-probabilities included) and finished."
    )
    prompt = parser.add_mutually_exclusive_group(required=True)
    prompt.add_argument("prompt", nargs="?", type=text, metavar="PROMPT", help="text; - reads all of stdin")
    prompt.add_argument("--ids", type=token_ids, metavar="I,I,...", help="token ids instead of text")
    add_generation(parser)
    parser.add_argument("--log-probabilities", action="store_true", help="tell each token's log-probability")
    parser.add_argument(
        "--top-entries", type=unsigned(32), default=0, metavar="N", help="and the N most likely"
    )
    add_connection(parser)


def run(args: argparse.Namespace) -> int:
    """Generate, and return the exit code."""
    options = generation_options(args)
    options["log_probabilities"] = args.log_probabilities or args.json
    options["top_entries"] = args.top_entries
    prompt = args.ids if args.ids is not None else text_or_stdin(args.prompt)
    with Client(args.target) as client, client.generate(prompt, **options) as generation:
        if args.json:
            _write_json(generation)
        else:
            _write_text(generation, lines=args.log_probabilities or args.top_entries > 0)
    return 0


def _write_json(generation: Generation) -> None:
    emit_started(generation)
    for token in generation:
        emit_token(token)
    emit_finished(generation.finished)


def _write_text(generation: Generation, *, lines: bool) -> None:
    rate = Rate()
    for token in generation:
        rate.count()
        if lines:
            say(_line_of(token))
        else:
            say(token.text, end="")
    finished = generation.finished
    if not lines:
        say(finished.text)
    elif finished.text:
        say(f"text held back until the end: {finished.text!r}")
    work = finished.work
    print(
        f"zeroulp: {rate}, ended by {finished.reason.name}, seed {generation.seed}; work:"
        f" {work.token_forwards} token forwards, {work.cache_appends} cache appends,"
        f" {work.attention_score_values} attention score values",
        file=sys.stderr,
    )


def _line_of(token: Token) -> str:
    said = "" if token.log_probability is None else f"{token.log_probability:.6f}"
    entries = "".join(f"  {entry.token_id}:{entry.log_probability:.6f}" for entry in token.top_entries)
    return f"{token.position:>6} {token.token_id:>6} {said:>10} {token.text!r}{entries}"
