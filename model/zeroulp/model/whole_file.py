"""Files that appear in their place whole, or not at all. Knows nothing of what is in them."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def whole_file(target: Path) -> Iterator[Path]:
    """Give a place beside ``target`` to write to; at the end of the block the file is renamed to ``target``.

    When the block fails, what was at ``target`` before is untouched. Raises ``OSError``.
    """
    with tempfile.TemporaryDirectory(prefix=f".{target.name}.part-", dir=target.parent) as scratch:
        part = Path(scratch) / target.name
        part.touch()
        usual = part.stat().st_mode
        yield part
        # A writer may have put a file of its own there, closed to others.
        part.chmod(stat.S_IMODE(usual))
        sync(part)
        part.replace(target)
    sync(target.parent)  # a rename survives a power cut with its folder only


def sync(path: Path) -> None:
    """Bring a file's content, or a folder's entries, down to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
