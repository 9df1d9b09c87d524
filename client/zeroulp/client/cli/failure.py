"""How a command fails, and how that is told."""

from __future__ import annotations

import json
import sys

from zeroulp.client.errors import ZeroulpError


class CommandFailed(Exception):
    """A command cannot go on, for a reason outside the calls to the server; the message says it all."""


def report(failed: ZeroulpError | CommandFailed, *, as_json: bool) -> None:
    """Write the failure to stderr: a line that starts with "zeroulp: ", or one JSON object.

    stdout stays the results' own in both cases, so that a reader of it needs no second grammar.
    """
    if as_json:
        print(json.dumps({"error": _fields_of(failed)}), file=sys.stderr)
    else:
        print(f"zeroulp: {_line_of(failed)}", file=sys.stderr)


def _line_of(failed: ZeroulpError | CommandFailed) -> str:
    if isinstance(failed, CommandFailed):
        return str(failed)
    line = f"{failed.reason or failed.code}: {failed.message}"
    # A violation often is the message itself, word for word.
    said = [
        f"{v.field}: {v.description}" if v.description != failed.message else v.field
        for v in failed.violations
    ]
    if said:
        line += f" ({'; '.join(said)})"
    if failed.retry_after_seconds is not None:
        line += f"; try again in {failed.retry_after_seconds:g} s"
    return " ".join(line.split())


def _fields_of(failed: ZeroulpError | CommandFailed) -> dict[str, object]:
    if isinstance(failed, CommandFailed):
        return {"code": None, "reason": None, "message": str(failed)}
    return {
        "code": failed.code,
        "reason": failed.reason or None,
        "message": failed.message,
        "metadata": dict(failed.metadata),
        "violations": [{"field": v.field, "description": v.description} for v in failed.violations],
        "retry_after_seconds": failed.retry_after_seconds,
    }
