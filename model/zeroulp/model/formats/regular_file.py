"""Opening a model file: a regular file that is not empty."""

from __future__ import annotations

import os
import stat
from io import FileIO
from pathlib import Path

from zeroulp.model.errors import MalformedFile, ModelRefused


def open_regular(path: Path) -> FileIO:
    """Return the file, open for unbuffered reading.

    Raises ``ModelRefused`` if there is no readable regular file, and ``MalformedFile`` for an empty one.
    """
    try:
        # Opening a pipe would otherwise wait for a writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ModelRefused(f"the file cannot be opened: {reason}") from error
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise ModelRefused("this is not a regular file")
        if status.st_size == 0:
            raise MalformedFile("the file is empty")
        return FileIO(descriptor)
    except BaseException:
        os.close(descriptor)
        raise
