"""The watch for values that left the finite numbers."""

from __future__ import annotations

from zeroulp.model.errors import NonFinite
from zeroulp.model.kernels.arrays import F64
from zeroulp.model.kernels.elementwise import first_non_finite_row


def require_finite(layer: int | None, stage: str, values: F64) -> None:
    """Raise ``NonFinite`` that names layer, stage and row if ``values [rows, features]`` holds one."""
    row = first_non_finite_row(values)
    if row < len(values):
        raise NonFinite(layer, stage, row)
