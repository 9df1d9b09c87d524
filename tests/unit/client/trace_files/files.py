"""Small files of tensors."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zeroulp.client.trace_files.facts import Facts
from zeroulp.client.trace_files.trace_file import TraceFile, write

Arrays = Mapping[str, NDArray[Any]]
ORDER = ("embed", "blocks.0.query", "blocks.0.gate", "final_norm", "logits")
WIDTHS = (4, 4, 7, 4, 11)
FACTS = Facts("tiny", "ab" * 32, "1", 3, (5, 6, 7, 8), (4, 5, 6), ORDER)


def tensors(rows: int = 3, seed: int = 1) -> dict[str, NDArray[np.float64]]:
    """Values of every size and both signs."""
    rng = np.random.default_rng(seed)
    return {
        name: rng.standard_normal((rows, width)) * 10.0 ** rng.integers(-9, 9, (rows, width))
        for name, width in zip(ORDER, WIDTHS, strict=True)
    }


def file(arrays: Arrays | None = None, facts: Facts = FACTS) -> TraceFile:
    return TraceFile(tensors() if arrays is None else arrays, facts)


def written(path: Path, arrays: Arrays | None = None, facts: Facts = FACTS) -> Path:
    write(path, tensors() if arrays is None else arrays, facts)
    return path
