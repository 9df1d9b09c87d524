"""The folder of pulled model files, and whether a file in it is the one that was published."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Final

import platformdirs

from zeroulp.model.library.catalogue import Pulled

HOME_VARIABLE: Final = "ZEROULP_HOME"
"""Environment variable with the folder to use instead of the user's cache folder; empty is unset."""


def models_folder() -> Path:
    """Return the folder of pulled models, which may not exist yet."""
    home = os.environ.get(HOME_VARIABLE)
    return (Path(home) if home else platformdirs.user_cache_path("zeroulp")) / "models"


def pulled_path(model: Pulled) -> Path:
    """Return where a pulled model's file belongs, whether or not it is there."""
    return models_folder() / f"{model.name}.gguf"


def sha256_of(path: Path) -> str:
    """Return a file's SHA-256 in lower-case hex; raises ``OSError``."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def is_pulled(model: Pulled) -> bool:
    """Tell whether the whole, right file is in place.

    The file is hashed every time (a tenth of a second per 100 MB): a damaged one would load and
    compute wrong bits.
    """
    path = pulled_path(model)
    try:
        return path.stat().st_size == model.size and sha256_of(path) == model.sha256
    except FileNotFoundError:
        return False
