"""A file of traced tensors, in one of two formats."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zeroulp.client.trace_files import npz, safetensors_file
from zeroulp.client.trace_files.errors import TraceFileBroken
from zeroulp.client.trace_files.facts import Facts, facts_of

FORMATS: Mapping[str, ModuleType] = {".npz": npz, ".safetensors": safetensors_file}
"""By suffix."""


@dataclass(frozen=True, slots=True, eq=False)
class TraceFile:
    """Tensors of floating-point numbers by name, in the order in which they were computed if that is told."""

    tensors: Mapping[str, NDArray[Any]]
    facts: Facts

    def type_of(self, name: str) -> str:
        """Return the name of a tensor's type."""
        kind = self.tensors[name].dtype
        return "bfloat16" if kind == safetensors_file.BFLOAT16 else kind.name

    def widened(self, name: str) -> NDArray[np.float64]:
        """Return a tensor's values as f64, each exactly the same number."""
        values = self.tensors[name]
        if values.dtype == safetensors_file.BFLOAT16:
            # The upper half of a float32.
            values = (values["bfloat16"].astype(np.uint32) << 16).view(np.float32)
        with np.errstate(invalid="ignore"):  # a signalling NaN says so
            return values.astype(np.float64)

    def positions_of(self, name: str) -> NDArray[np.int64]:
        """Return the position of each row; raises TraceFileBroken if the file tells more or fewer."""
        rows = self.tensors[name].shape[-2]
        told = self.facts.positions
        if told is None:
            return np.arange(rows, dtype=np.int64)
        if len(told) != rows:
            raise TraceFileBroken(f"it tells {len(told)} positions for the {rows} rows of {name}")
        return np.array(told, np.int64)


def check_format(path: Path) -> None:
    """Raise TraceFileBroken unless the suffix names a format."""
    if path.suffix not in FORMATS:
        raise TraceFileBroken(f"its name should end in {' or '.join(FORMATS)}")


def read(path: Path) -> TraceFile:
    """Return what a file holds; raises TraceFileBroken."""
    check_format(path)
    arrays, metadata = FORMATS[path.suffix].read(path)
    for name, values in arrays.items():
        if values.dtype != safetensors_file.BFLOAT16 and not _is_narrow_float(values.dtype):
            raise TraceFileBroken(f"its tensor {name} is of type {values.dtype}; floats to 64 bits are read")
    facts = facts_of(metadata)
    order = [name for name in facts.order or () if name in arrays]
    return TraceFile({name: arrays[name] for name in dict.fromkeys([*order, *arrays])}, facts)


def _is_narrow_float(kind: np.dtype[Any]) -> bool:
    return kind.kind == "f" and kind.itemsize <= 8


def write(path: Path, tensors: Mapping[str, NDArray[np.float64]], facts: Facts) -> None:
    """Write a whole file or, when it raises TraceFileBroken, none."""
    check_format(path)
    part = path.with_name(f"{path.name}.part")
    try:
        FORMATS[path.suffix].write(part, tensors, facts.texts())
        os.replace(part, path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise TraceFileBroken(f"it cannot be written: {error}") from error
