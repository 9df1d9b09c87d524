"""``zeroulp boundary``: what the reference fixture shows, as one JSON object."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict

from rich.console import Console

from zeroulp.model.boundary.report import report
from zeroulp.model.compute_team import ComputeTeam


def boundary(arguments: list[str]) -> int:
    """Run the command; return its exit code: 1 if anything is not as promised."""
    parser = argparse.ArgumentParser(
        "zeroulp boundary",
        description="Compute the reference fixture boundary-39 in full, through a cache and backwards, try "
        "every call that must be refused, and print what came out as one JSON object. Exits with 1 if "
        "anything is not as promised; a call that was not refused before any block ran has null for its "
        "message.",
    )
    parser.parse_args(arguments)
    console = Console(stderr=True)
    # Some of its kernels are needed nowhere else: the first time on a machine they are compiled here.
    with console.status("computing the fixture; compiling takes up to a minute the first time"):
        found = report(ComputeTeam())
    print(json.dumps(asdict(found), allow_nan=False))
    return 0 if found.holds else 1
