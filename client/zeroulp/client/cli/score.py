"""``zeroulp score``: how likely the model finds given text."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from zeroulp.client.bits import bits_of
from zeroulp.client.cli.options import add_connection, text, text_or_stdin, token_ids
from zeroulp.client.cli.output import emit, f64_fields, json_number, say
from zeroulp.client.client import Client
from zeroulp.client.score import ScoreSequence, SequenceScore

NAME = "score"
HELP = "log-probabilities of given text or ids"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.description = "Score sequences by a full forward. With --json there is one line per sequence."
    given = parser.add_mutually_exclusive_group(required=True)
    # The default is what argparse takes for "not given": without it --ids alone would be refused.
    given.add_argument("text", nargs="*", type=text, default=[], metavar="TEXT", help="- reads all of stdin")
    given.add_argument("--ids", type=token_ids, metavar="I,I,...", help="one sequence of token ids instead")
    parser.add_argument(
        "--targets", type=token_ids, metavar="I,I,...", help="with --ids: one per id; default: the next id"
    )
    add_connection(parser)
    parser.set_defaults(usage_error=parser.error)


def run(args: argparse.Namespace) -> int:
    """Score, and return the exit code."""
    if args.ids is None and args.targets is not None:
        args.usage_error("--targets go with --ids")
    if args.ids is None:
        sequences = [ScoreSequence(text_or_stdin(argument)) for argument in args.text]
    else:
        sequences = [ScoreSequence(args.ids, targets=args.targets)]
    with Client(args.target) as client:
        scores = client.score(*sequences)
    for index, score in enumerate(scores.sequences):
        if args.json:
            _emit(index, score)
        else:
            _say(score)
    return 0


def _emit(index: int, score: SequenceScore) -> None:
    emit(
        sequence=index,
        token_ids=score.token_ids,
        target_ids=[token.target_id for token in score.tokens],
        log_probabilities=[json_number(token.log_probability) for token in score.tokens],
        log_probability_bits=[bits_of(token.log_probability) for token in score.tokens],
        greedy=[token.greedy for token in score.tokens],
        **f64_fields("sum_log_probability", score.sum_log_probability),
        **f64_fields("mean_nll", score.mean_nll),
        work=asdict(score.work),
    )


def _say(score: SequenceScore) -> None:
    say("position  target  log-probability")
    for position, token in enumerate(score.tokens):
        greedy = "  greedy" if token.greedy else ""
        say(f"{position:>8} {token.target_id:>7} {token.log_probability:>16.9f}{greedy}")
    mean = "none" if score.mean_nll is None else f"{score.mean_nll:.9f} ({bits_of(score.mean_nll)})"
    say(f"sum {score.sum_log_probability:.9f} ({bits_of(score.sum_log_probability)}), mean NLL {mean}")
