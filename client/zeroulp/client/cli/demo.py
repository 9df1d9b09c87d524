"""``zeroulp demo``: a model, a daemon, a stream of tokens, and the check of every bit."""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from zeroulp.client.cli.comparison import compare_with_full_forward
from zeroulp.client.cli.daemon import running_daemon
from zeroulp.client.cli.options import unsigned
from zeroulp.client.cli.output import say
from zeroulp.client.cli.rate import Rate
from zeroulp.client.client import Client
from zeroulp.client.finished import FinishReason
from zeroulp.client.logits import LogitsScope
from zeroulp.client.sampling import GREEDY
from zeroulp.client.session import Session
from zeroulp.client.token import Token

NAME = "demo"
HELP = "pull a model, serve it, stream from it, and check every bit"

PROGRAM = (sys.executable, "-m", "zeroulp.client")
MODEL = "smollm2-135m"
FALLBACK_MODEL = "glass-default"
PROMPT = "The capital of France is"
RULE = "*" * 78


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.description = (
        f"Pull {MODEL}, serve it on a free port, stream the greedy continuation of {PROMPT!r}, and compare "
        "every logit row that came with the full forward's, bit by bit. Needs zeroulp[server]."
    )
    parser.add_argument("--max-new-tokens", type=unsigned(32), default=48, metavar="N", help="default: 48")


def run(args: argparse.Namespace) -> int:
    """Show it all, and return the exit code: 1 if a bit differs or the daemon did not stop as it should."""
    with _unwound_by_signals():
        model = _pulled()
        with running_daemon(PROGRAM, model) as daemon:
            say(f"daemon at {daemon.target}: {daemon.ready}")
            with Client(daemon.target) as client:
                differing = _show(client, args.max_new_tokens)
            exit_code = daemon.stop()
    say("the daemon has stopped" if exit_code == 0 else f"the daemon stopped with exit code {exit_code}")
    return 0 if differing == 0 and exit_code == 0 else 1


def _pulled() -> str:
    """Return the name of the model to serve: the real one if it can be had."""
    sys.stdout.flush()
    exit_code = subprocess.run([*PROGRAM, "pull", MODEL], check=False).returncode
    if exit_code == 0:
        return MODEL
    print(
        f"\n{RULE}\n{MODEL} could not be pulled (exit code {exit_code}; the reason is above).\n"
        f"Going on with {FALLBACK_MODEL}, which needs no file: its weights are seeded and untrained,\n"
        f"so its text means nothing. The check of the bits is the same.\n{RULE}\n",
        file=sys.stderr,
        flush=True,
    )
    return FALLBACK_MODEL


def _show(client: Client, max_new_tokens: int) -> int:
    """Stream, tell the work, compare; return how many bits differ."""
    say(f"\n{PROMPT}", end="")
    rate = Rate()
    tokens: list[Token] = []
    with client.generate(
        PROMPT, keep_session=True, max_new_tokens=max_new_tokens, sampling=GREEDY, logits=LogitsScope.LAST
    ) as generation:
        for token in generation:
            rate.count()
            tokens.append(token)
            say(token.text, end="")
    say(f"{generation.finished.text}\n\n{rate}")

    with client.session(generation.session_id) as session:
        state = session.state()
        say(
            f"the session's work: {state.total_work.cache_appends} cache appends,"
            f" {state.total_work.attention_score_values} attention score values, {state.position} tokens"
        )
        if generation.finished.reason is not FinishReason.CONTEXT_FULL:
            tokens += _newest_row(session)
        compared = compare_with_full_forward(client, session.state().token_ids, tokens)
    say(f"{compared.rows} decoded logit rows compared with the full forward: {compared.bits} bits differ")
    return compared.bits


def _newest_row(session: Session) -> list[Token]:
    """Draw one more token: it brings the row after the last one, which no token has shown yet."""
    return list(
        session.generate(max_new_tokens=1, sampling=GREEDY, ignore_end_tokens=True, logits=LogitsScope.LAST)
    )


@contextmanager
def _unwound_by_signals() -> Iterator[None]:
    """Let SIGTERM and a closed terminal unwind the stack, so that the daemon is stopped with us."""

    def leave(number: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    before = {number: signal.signal(number, leave) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
