"""Settings that every test shares, and the real model's file."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import settings

from zeroulp.model.library.resolve import resolve

# A run must be the same run every time: derandomised, and no clock decides.
settings.register_profile("zeroulp", derandomize=True, deadline=None, database=None)
settings.load_profile("zeroulp")


@pytest.fixture(scope="session")
def real_model_path() -> Path:
    """SmolLM2-135M-Instruct as `zeroulp pull` unpacked it; its absence is an error, never a skip."""
    path = resolve("smollm2-135m")
    assert isinstance(path, Path)
    return path
