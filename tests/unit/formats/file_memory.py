"""How much memory reading a file may take."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

CONSTANT_BYTES = 256 * 1024


@contextmanager
def paid_for_by(path: Path, bytes_per_file_byte: int) -> Iterator[None]:
    """Fail if the block's peak is more than so many bytes for each of the file's, and a constant."""
    size = path.stat().st_size
    tracemalloc.start()
    try:
        yield
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak <= bytes_per_file_byte * size + CONSTANT_BYTES
