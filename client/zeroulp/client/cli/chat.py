"""``zeroulp chat``: a conversation through the model's own template."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import closing, suppress

from zeroulp.client.cli.conversation import Conversation
from zeroulp.client.cli.events import emit_finished, emit_started, emit_token
from zeroulp.client.cli.options import add_connection, add_generation, generation_options, text
from zeroulp.client.cli.output import emit, say
from zeroulp.client.client import Client
from zeroulp.client.generation import Generation

NAME = "chat"
HELP = "talk with the model"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.description = (
        "Talk with the model through its own chat template, in one session. Messages come from the "
        "terminal, from --message, or from stdin, one a line. At a terminal Ctrl-C breaks an answer "
        "off and Ctrl-D ends the conversation. With --json each turn has the lines of generate, and "
        "then message, the whole answer."
    )
    parser.add_argument("--system", type=text, metavar="TEXT", help="what the model is told first")
    parser.add_argument(
        "--message",
        type=text,
        action="append",
        dest="messages",
        metavar="TEXT",
        help="say this instead of reading; repeatable, a turn each",
    )
    add_generation(parser)
    add_connection(parser)


def run(args: argparse.Namespace) -> int:
    """Talk, and return the exit code."""
    options = generation_options(args)
    options["log_probabilities"] = args.json
    interactive = args.messages is None and sys.stdin.isatty()
    messages = args.messages if args.messages is not None else _typed() if interactive else _piped()
    with Client(args.target) as client, closing(Conversation(client, args.system, options)) as conversation:
        for message in messages:
            with conversation.ask(message) as generation:
                answer = _write(generation, as_json=args.json, may_break_off=interactive)
            conversation.answered(answer)
            if args.json:
                emit(event="message", role="assistant", content=answer)
    return 0


def _typed() -> Iterator[str]:
    # Its import alone gives input() a history and a line to edit; not every system has it.
    with suppress(ImportError):
        import readline  # noqa: F401
    # A prompt that readline knows of stays where it is; in a redirected output there should be none.
    prompt = "> " if sys.stdout.isatty() else ""
    while True:
        try:
            line = input(prompt)
        except EOFError:
            print(file=sys.stderr)
            return
        if line.strip():
            yield line


def _piped() -> Iterator[str]:
    # Bytes, as the locale's encoding is not to decide what the model reads.
    for line in sys.stdin.buffer:
        if line.strip():
            yield line.decode().rstrip("\r\n")


def _write(generation: Generation, *, as_json: bool, may_break_off: bool) -> str:
    """Write an answer as it comes, and return it, up to where Ctrl-C broke it off."""
    pieces: list[str] = []

    def write(piece: str) -> None:
        pieces.append(piece)
        if not as_json:
            say(piece, end="")

    try:
        if as_json:
            emit_started(generation)
        for token in generation:
            if as_json:
                emit_token(token)
            write(token.text)
        if as_json:
            emit_finished(generation.finished)
        write(generation.finished.text)
    except KeyboardInterrupt:
        if not may_break_off:
            raise
        generation.cancel()
    if not as_json:
        say("")
    return "".join(pieces)
