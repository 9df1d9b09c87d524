"""``zeroulp model``: what the daemon serves."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import asdict

from zeroulp.client.cli.options import add_connection
from zeroulp.client.cli.output import emit, say
from zeroulp.client.client import Client
from zeroulp.client.model import Model

NAME = "model"
HELP = "configuration, parameters, tokenizer and limits"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.description = "Tell the model that the daemon serves. With --json everything is one line."
    add_connection(parser)


def run(args: argparse.Namespace) -> int:
    """Ask and tell, and return the exit code."""
    with Client(args.target) as client:
        model = client.model()
    if args.json:
        emit(**asdict(model))
    else:
        _say(model)
    return 0


def _say(model: Model) -> None:
    storages = sorted({parameter.storage for parameter in model.parameters})
    _say_section(
        model.name,
        {
            "parameters": f"{model.parameter_count:,} in {len(model.parameters)} tensors",
            "bytes": f"{model.parameter_bytes:,} ({', '.join(storages)})",
            "digest": model.parameters_digest,
            "arithmetic version": model.arithmetic_version,
            "tokenizer": model.tokenizer_kind,
            "end tokens": ", ".join(map(str, model.end_token_ids)) or "none",
            "chat template": "yes" if model.chat_template else "none",
            "server version": model.server_version,
        },
    )
    _say_section("configuration", asdict(model.configuration) | {"context_window": _window_of(model)})
    _say_section("limits", {name: f"{bound:,}" for name, bound in asdict(model.limits).items()})


def _window_of(model: Model) -> object:
    window = model.configuration.context_window
    return "full attention" if window is None else window


def _say_section(title: str, lines: Mapping[str, object]) -> None:
    say(title)
    for name, value in lines.items():
        say(f"  {name.replace('_', ' '):<24}{value}")
