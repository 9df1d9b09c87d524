"""``zeroulp health``: whether the daemon takes work."""

from __future__ import annotations

import argparse

from zeroulp.client.cli.options import add_connection
from zeroulp.client.cli.output import emit, say
from zeroulp.client.client import Client

NAME = "health"
HELP = "exit 0 if the daemon is serving, else 1"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.description = "Exit 0 if the daemon's gRPC health is SERVING, else 1."
    add_connection(parser)


def run(args: argparse.Namespace) -> int:
    """Ask, and return the exit code."""
    with Client(args.target) as client:
        serving = client.is_serving()
    if args.json:
        emit(target=args.target, serving=serving)
    else:
        say("SERVING" if serving else "NOT_SERVING")
    return 0 if serving else 1
