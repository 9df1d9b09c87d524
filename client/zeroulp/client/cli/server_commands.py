"""Commands that another part of the project brings, found by their entry points."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.metadata import EntryPoint, entry_points

from zeroulp.client.cli.failure import CommandFailed

GROUP = "zeroulp.commands"
Command = Callable[[list[str]], int]

HELP: Mapping[str, str] = {
    "serve": "run the daemon",
    "pull": "fetch a model",
    "boundary": "print what the reference fixture shows, as JSON",
}
"""The commands of zeroulp[server], which are listed whether it is installed or not."""


def names() -> list[str]:
    """Return the names of all commands that are not the client's own."""
    return sorted({*HELP, *entry_points(group=GROUP).names})


def load(name: str) -> Command:
    """Return a command, a function of its arguments; raises CommandFailed if its part is not installed."""
    found = entry_points(group=GROUP, name=name)
    try:
        return _loaded(next(iter(found)))
    except (StopIteration, ModuleNotFoundError) as missing:
        why = f" ({missing})" if isinstance(missing, ModuleNotFoundError) else ""
        raise CommandFailed(f"{name} comes with the server: pip install 'zeroulp[server]'{why}") from missing


def _loaded(entry_point: EntryPoint) -> Command:
    command: Command = entry_point.load()
    return command
