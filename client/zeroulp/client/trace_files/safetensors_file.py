"""Tensors in the format safetensors, with its metadata."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, deserialize, safe_open
from safetensors.numpy import save

from zeroulp.client.trace_files.errors import TraceFileBroken

BFLOAT16 = np.dtype([("bfloat16", "<u2")])
"""numpy has no bfloat16 of its own: its bits, under its name."""

_TYPES: Mapping[str, np.dtype[Any]] = {
    "F64": np.dtype("<f8"),
    "F32": np.dtype("<f4"),
    "F16": np.dtype("<f2"),
    "BF16": BFLOAT16,
}


def write(path: Path, tensors: Mapping[str, NDArray[np.float64]], metadata: Mapping[str, str]) -> None:
    """Write the file; raises OSError."""
    # Not by its save_file, which leaves a file that only its owner can read.
    path.write_bytes(save(dict(tensors), metadata=dict(metadata)))


def read(path: Path) -> tuple[dict[str, NDArray[Any]], dict[str, str]]:
    """Return tensors and metadata; raises TraceFileBroken, also for a tensor of another type."""
    try:
        with safe_open(path, framework="np") as file:
            metadata = dict(file.metadata() or {})
        # Not through safe_open: it has no bfloat16 for numpy.
        found = deserialize(path.read_bytes())
    except (OSError, SafetensorError) as error:
        raise TraceFileBroken(f"it cannot be read as safetensors: {error}") from error
    return {name: _array_of(name, tensor) for name, tensor in found}, metadata


def _array_of(name: str, tensor: Mapping[str, Any]) -> NDArray[Any]:
    kind = _TYPES.get(tensor["dtype"])
    if kind is None:
        raise TraceFileBroken(f"its tensor {name} is of type {tensor['dtype']}; {', '.join(_TYPES)} are read")
    array: NDArray[Any] = np.frombuffer(tensor["data"], kind).reshape(tensor["shape"])
    return array
