"""Where the parts of the source tree are, and the files in it that are not ignored."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
PORTIONS: Final = {"proto": "v1", "model": "model", "server": "server", "client": "client"}
"""Each source root and the one portion of the namespace that it holds."""


def source_files(folder: str = ".") -> list[str]:
    """Return the paths, from ROOT, of the files below ``folder`` that git tracks or would track."""
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", folder],
        cwd=ROOT,
        capture_output=True,
        check=True,
        text=True,
    ).stdout
    return sorted(name for name in listing.split("\0") if name and (ROOT / name).is_file())
