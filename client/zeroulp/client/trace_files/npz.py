"""Tensors in numpy's .npz: one array a name, and the metadata as JSON in an array of bytes."""

from __future__ import annotations

import json
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zeroulp.client.trace_files.errors import TraceFileBroken

_METADATA = "__metadata__"

_DAMAGE = (
    OSError,
    EOFError,
    ValueError,
    LookupError,
    NotImplementedError,  # a compression that does not exist
    RuntimeError,  # a password
    MemoryError,  # a shape that nothing holds
    zipfile.BadZipFile,
    zlib.error,
)
"""What reading a damaged file can raise."""


def write(path: Path, tensors: Mapping[str, NDArray[np.float64]], metadata: Mapping[str, str]) -> None:
    """Write the file; raises OSError."""
    text = np.frombuffer(json.dumps(dict(metadata)).encode(), np.uint8)
    # Not through savez: it adds a suffix to the path, and takes some names for its own options.
    with path.open("wb") as file, zipfile.ZipFile(file, "w", allowZip64=True) as archive:
        for name, values in [(_METADATA, text), *tensors.items()]:
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asanyarray(values), allow_pickle=False)


def read(path: Path) -> tuple[dict[str, NDArray[Any]], dict[str, str]]:
    """Return tensors and metadata; raises TraceFileBroken."""
    try:
        with path.open("rb") as file, zipfile.ZipFile(file) as archive:
            arrays = {name.removesuffix(".npy"): _member(archive, name) for name in archive.namelist()}
    except _DAMAGE as error:
        raise TraceFileBroken(f"it cannot be read as .npz: {error}") from error
    return arrays, _metadata_of(arrays.pop(_METADATA, None))


def _member(archive: zipfile.ZipFile, name: str) -> NDArray[Any]:
    with archive.open(name) as member:
        array: NDArray[Any] = np.lib.format.read_array(member, allow_pickle=False)
        return array


def _metadata_of(text: NDArray[Any] | None) -> dict[str, str]:
    if text is None:
        return {}
    try:
        metadata = json.loads(text.tobytes())
    except ValueError:
        metadata = None
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise TraceFileBroken(f"its array {_METADATA} is not a JSON object of strings")
    return metadata
