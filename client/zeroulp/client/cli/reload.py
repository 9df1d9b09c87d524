"""``zeroulp reload``: other weights for a running daemon."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path

from zeroulp.client.cli.failure import CommandFailed
from zeroulp.client.cli.options import add_connection, text
from zeroulp.client.cli.output import emit, say
from zeroulp.client.client import Client

NAME = "reload"
HELP = "give a running daemon other weights"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.description = (
        "Let the daemon load other weights of the same configuration, without a restart. Sessions and calls "
        "from before fail with PARAMETERS_CHANGED; a refused file changes nothing."
    )
    parser.add_argument(
        "path",
        nargs="?",
        default="",
        type=text,
        metavar="PATH",
        help="a model's name, or a file on the daemon's machine (default: where the present came from)",
    )
    parser.add_argument(
        "--token-file",
        type=Path,
        required=True,
        metavar="FILE",
        help="holds the token of the daemon's --admin-token-file",
    )
    add_connection(parser)


def run(args: argparse.Namespace) -> int:
    """Ask for it, and return the exit code."""
    token = _token(args.token_file)
    with Client(args.target) as client:
        reloaded = client.reload_model(token, args.path)
    if args.json:
        emit(**asdict(reloaded))
        return 0
    say(f"{reloaded.name}: {reloaded.parameter_bytes:,} bytes of parameters in {reloaded.seconds:.3f} s")
    say(f"  digest before {reloaded.parameters_digest_before}")
    say(f"  digest after  {reloaded.parameters_digest_after}")
    return 0


def _token(path: Path) -> str:
    try:
        token = path.read_bytes().strip().decode("ascii")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it holds more than ASCII characters"
        raise CommandFailed(f"the token file {path} cannot be read: {reason}") from error
    if not (token and token.isprintable()):
        raise CommandFailed(f"the token file {path} holds no token: one line of visible ASCII is needed")
    return token
