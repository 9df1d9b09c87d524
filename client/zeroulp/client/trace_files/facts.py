"""What a file says about its tensors, as text under fixed keys. Every key may be missing."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, TypeGuard

from zeroulp.client.trace_files.errors import TraceFileBroken


@dataclass(frozen=True, slots=True)
class Facts:
    """None stands for what a file does not say. A file that another engine wrote may say nothing at all."""

    model: str | None = None
    parameters_digest: str | None = None
    arithmetic_version: str | None = None
    first_position: int | None = None
    """Where the first of ``token_ids`` stands."""
    token_ids: tuple[int, ...] | None = None
    positions: tuple[int, ...] | None = None
    """The position of each row; without it, row r stands at position r."""
    order: tuple[str, ...] | None = None
    """The tensors' names in the order in which they were computed; the formats keep none of their own."""

    def texts(self) -> dict[str, str]:
        """Return what is said: strings as they are, everything else as JSON."""
        said = {field.name: getattr(self, field.name) for field in fields(self)}
        return {
            name: value if isinstance(value, str) else json.dumps(value)
            for name, value in said.items()
            if value is not None
        }


def facts_of(texts: Mapping[str, str]) -> Facts:
    """Return what a file says; other keys are its own. Raises TraceFileBroken for a value of another kind."""
    return Facts(
        model=texts.get("model"),
        parameters_digest=texts.get("parameters_digest"),
        arithmetic_version=texts.get("arithmetic_version"),
        first_position=_number(texts, "first_position"),
        token_ids=_numbers(texts, "token_ids"),
        positions=_numbers(texts, "positions"),
        order=_names(texts, "order"),
    )


def _number(texts: Mapping[str, str], key: str) -> int | None:
    value = _value(texts, key)
    if value is None or _is_number(value):
        return value
    raise TraceFileBroken(f"its metadata {key} is not a whole number")


def _numbers(texts: Mapping[str, str], key: str) -> tuple[int, ...] | None:
    values = _value(texts, key)
    if values is None:
        return None
    if not isinstance(values, list) or not all(map(_is_number, values)):
        raise TraceFileBroken(f"its metadata {key} is not a JSON list of whole numbers")
    return tuple(values)


def _names(texts: Mapping[str, str], key: str) -> tuple[str, ...] | None:
    values = _value(texts, key)
    if values is None:
        return None
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise TraceFileBroken(f"its metadata {key} is not a JSON list of names")
    return tuple(values)


def _is_number(value: object) -> TypeGuard[int]:
    return type(value) is int and 0 <= value < 1 << 63


def _value(texts: Mapping[str, str], key: str) -> Any:
    """Return the JSON value under a key, None without the key."""
    if key not in texts:
        return None
    try:
        return json.loads(texts[key])
    except ValueError:
        raise TraceFileBroken(f"its metadata {key} is not JSON") from None
