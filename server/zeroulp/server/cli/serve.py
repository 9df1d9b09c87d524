"""``zeroulp serve``: run the daemon."""

from __future__ import annotations

import argparse
import math
import os
import sys
from pathlib import Path

from zeroulp.model.errors import ModelRefused
from zeroulp.server.grpc_server import PortTaken
from zeroulp.server.process import Daemon
from zeroulp.server.token_file import TokenFile, TokenFileRefused


def serve(arguments: list[str]) -> int:
    """Run the command until a signal ends it; return its exit code."""
    options = _parser().parse_args(arguments)
    token = TokenFile(options.admin_token_file) if options.admin_token_file is not None else None
    daemon = Daemon(options.model, options.listen, options.threads, options.grace, token)
    try:
        return daemon.run()
    except (ModelRefused, PortTaken, TokenFileRefused) as error:
        print(f"zeroulp: {error}", file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "zeroulp serve",
        description="Serve a model over gRPC. Prints 'zeroulp listening on HOST:PORT' and, when it takes "
        "calls, 'zeroulp ready: ...' to stdout; logs JSON lines to stderr. SIGTERM or Ctrl-C finishes the "
        "calls in flight, a second one ends at once.",
    )
    parser.add_argument(
        "--model",
        required=True,
        metavar="NAME|PATH",
        help="boundary-39, glass-default, a pulled name, or a .gguf or .safetensors file",
    )
    parser.add_argument(
        "--listen",
        type=_address,
        default="127.0.0.1:50051",
        metavar="HOST:PORT",
        help="port 0 takes a free one (default: %(default)s)",
    )
    parser.add_argument(
        "--threads",
        type=_positive,
        default=os.cpu_count() or 1,
        metavar="N",
        help="compute threads; results do not depend on them "
        "(default: this machine's %(default)s processors)",
    )
    parser.add_argument(
        "--grace",
        type=_seconds,
        default=30.0,
        metavar="SECONDS",
        help="how long calls in flight may take to finish after SIGTERM (default: %(default)s)",
    )
    parser.add_argument(
        "--admin-token-file",
        type=Path,
        metavar="FILE",
        help="serve the admin service (zeroulp reload) to callers that have the token in FILE, which only "
        "its owner may read; another token in it holds at once (default: no admin service)",
    )
    return parser


def _address(text: str) -> str:
    host, _, port = text.rpartition(":")
    # gRPC would take a port past 65535 for another one, in silence.
    if not host or not (port.isascii() and port.isdecimal() and int(port) < 1 << 16):
        raise argparse.ArgumentTypeError(f"{text!r} is not HOST:PORT with a port from 0 to 65535")
    return text


def _positive(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and int(text) >= 1):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 on")
    return int(text)


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0.0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds from 0 on")
    return value
