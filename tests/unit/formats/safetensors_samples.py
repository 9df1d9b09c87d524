"""Small models in safetensors files, and files with anything in them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st

from zeroulp.model.configuration import Configuration
from zeroulp.model.formats.safetensors import save_model
from zeroulp.model.initialisation import initialised
from zeroulp.model.kernels.arrays import F64
from zeroulp.model.parameters import ParameterInventory
from zeroulp.model.text import DocumentBpe

TINY = Configuration(
    vocabulary_size=259,
    model_width=2,
    heads=1,
    kv_heads=1,
    feed_forward_width=1,
    layers=1,
    max_positions=4,
    rope_base=10000.0,
    rms_epsilon=1e-6,
)
TOKENIZER = DocumentBpe([(99, 100)])

SPECIAL: F64 = np.array(
    [0.0, -0.0, 5e-324, -2.5e-310, 2.0**-149, -(2.0**-130), 1.5, 3.0e38, 1e39, 1 / 3, -1.7e308, 2.0**-1022]
)
"""Zeros of both signs, subnormals of both widths, and values that need 16, 32 and 64 bits."""


@st.composite
def configurations(draw: st.DrawFn) -> Configuration:
    """Any small shape of a model."""
    kv_heads = draw(st.integers(1, 2))
    heads = kv_heads * draw(st.integers(1, 3))
    return Configuration(
        vocabulary_size=draw(st.integers(1, 40)),
        model_width=heads * 2 * draw(st.integers(1, 3)),
        heads=heads,
        kv_heads=kv_heads,
        feed_forward_width=draw(st.integers(1, 9)),
        layers=draw(st.integers(1, 3)),
        max_positions=draw(st.integers(1, 2**40)),
        rope_base=draw(st.floats(1e-300, 1e300)),
        rms_epsilon=draw(st.floats(5e-324, 1.0)),
        context_window=draw(st.none() | st.integers(1, 64)),
    )


def any_values(configuration: Configuration, seed: int) -> dict[str, F64]:
    """Values of every kind: special ones, exact in 16, 32 or 64 bits, and a third with any bits at all."""
    rng = np.random.default_rng(seed)
    values: dict[str, F64] = {}
    for name, shape in configuration.parameter_shapes().items():
        kind = int(rng.integers(4))
        if kind == 0:
            values[name] = rng.choice(SPECIAL, shape)
        elif kind == 1:
            values[name] = rng.integers(0, 2**63, shape, np.int64).view(np.float64)
        elif kind == 2:
            values[name] = rng.standard_normal(shape).astype(np.float32).astype(np.float64)
        else:
            values[name] = rng.integers(-8, 8, shape).astype(np.float64)
    return values


def write_tiny(path: Path, seed: int = 1) -> Path:
    """Save a model of ``TINY`` with its tokenizer."""
    save_model(path, TINY, ParameterInventory(TINY, initialised(TINY, seed)), TOKENIZER)
    return path


def parts_of(path: Path) -> tuple[dict[str, Any], bytes]:
    """Return a file's header and its data."""
    content = path.read_bytes()
    length = int.from_bytes(content[:8], "little")
    return json.loads(content[8 : 8 + length]), content[8 + length :]


def write_parts(path: Path, header: Mapping[str, Any] | str | bytes, data: bytes) -> Path:
    """Write a file of any header and any data."""
    text = header if isinstance(header, str | bytes) else json.dumps(header)
    raw = text.encode() if isinstance(text, str) else text
    path.write_bytes(len(raw).to_bytes(8, "little") + raw + data)
    return path
