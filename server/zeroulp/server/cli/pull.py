"""``zeroulp pull``: fetch a model into the user's cache folder."""

from __future__ import annotations

import argparse
import sys

from zeroulp.model.errors import ModelRefused
from zeroulp.model.library.catalogue import PULLED
from zeroulp.model.library.pull import pull as pull_model


def pull(arguments: list[str]) -> int:
    """Run the command; return its exit code."""
    parser = argparse.ArgumentParser(
        "zeroulp pull", description="Fetch a model into the user's cache folder."
    )
    parser.add_argument("name", metavar="NAME", help=f"one of: {', '.join(PULLED)}")
    name = parser.parse_args(arguments).name
    try:
        path = pull_model(name)
    except ModelRefused as error:
        print(f"zeroulp: {error}", file=sys.stderr)
        return 1
    print(path)
    return 0
