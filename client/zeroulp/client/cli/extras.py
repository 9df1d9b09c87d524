"""Parts of commands that need more than the base install."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from zeroulp.client.cli.failure import CommandFailed


@contextmanager
def needing(extra: str, what: str) -> Iterator[None]:
    """Turn a module that is missing in the block into a CommandFailed that says which extra brings it."""
    try:
        yield
    except ModuleNotFoundError as missing:
        raise CommandFailed(f"{what} needs more: pip install 'zeroulp[{extra}]' ({missing})") from missing
