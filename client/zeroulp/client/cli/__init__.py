"""The command line ``zeroulp``."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from zeroulp.client.cli import (
    chat,
    demo,
    diff,
    generate,
    health,
    model,
    reload,
    score,
    server_commands,
    trace,
)
from zeroulp.client.cli.failure import CommandFailed, report
from zeroulp.client.cli.output import tolerate_narrow_encodings
from zeroulp.client.errors import ZeroulpError

COMMANDS = (generate, chat, score, trace, diff, model, health, reload, demo)

EXIT_CODES = """exit codes: 0 done; 1 failed, or not serving, or bits that differ; 2 wrong usage, or files
that diff cannot compare; 130 Ctrl-C; 141 nobody reads stdout any more"""
FAILED = 1
INTERRUPTED = 130
BROKEN_PIPE = 141


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command, and return the exit code; wrong usage raises SystemExit(2), as argparse does."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    as_json = False
    try:
        tolerate_narrow_encodings()
        if arguments and arguments[0] in server_commands.names():
            return server_commands.load(arguments[0])(arguments[1:])
        args = _parser().parse_args(arguments)
        as_json = getattr(args, "json", False)
        return int(args.run(args))
    except (ZeroulpError, CommandFailed) as failed:
        report(failed, as_json=as_json)
        return FAILED
    except UnicodeError as failed:
        report(CommandFailed(f"the input is not UTF-8: {failed}"), as_json=as_json)
        return FAILED
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # Otherwise the interpreter would flush into the same pipe at its end, and complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="zeroulp",
        description="A language model whose every bit can be checked.",
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for command in COMMANDS:
        subparser = commands.add_parser(command.NAME, help=command.HELP)
        command.configure(subparser)
        subparser.set_defaults(run=command.run)
    for name in server_commands.names():
        # Only for the list: their arguments are their own, and main hands them over unread.
        commands.add_parser(name, help=server_commands.HELP.get(name, "another part's command"))
    return parser


__all__ = ["main"]
