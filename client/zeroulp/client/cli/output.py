"""What commands write to stdout: running text, or one JSON object a line."""

from __future__ import annotations

import json
import math
import sys

from zeroulp.client.bits import bits_of


def say(text: str, end: str = "\n") -> None:
    """Write text, at once."""
    print(text, end=end, flush=True)


def emit(**fields: object) -> None:
    """Write one JSON object as a line, at once. ASCII only, whatever the terminal's encoding."""
    print(json.dumps(fields, allow_nan=False), flush=True)


def json_number(value: float) -> float | None:
    """Return the value, or None for an infinity or NaN, which JSON has not; the bits beside it tell."""
    return value if math.isfinite(value) else None


def f64_fields(name: str, value: float | None) -> dict[str, object]:
    """Return a value as two JSON fields: ``name``, for people, and ``name``_bits, the value itself."""
    if value is None:
        return {name: None, f"{name}_bits": None}
    return {name: json_number(value), f"{name}_bits": bits_of(value)}


def tolerate_narrow_encodings() -> None:
    """Let stdout escape what its encoding has not, instead of raising in the middle of an answer."""
    reconfigure = getattr(sys.stdout, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="backslashreplace")
