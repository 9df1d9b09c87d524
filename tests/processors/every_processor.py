"""The processors between the plainest and this one; what the machine cannot run fails and is not left out."""

from __future__ import annotations

import pytest
from llvmlite.binding import get_host_cpu_features

from processors.test_processors import compare

HOST = get_host_cpu_features()
LEVELS = {
    "x86-64-v2": ("sse4.2", "popcnt"),
    "x86-64-v3": ("avx2", "fma", "bmi2"),
    "x86-64-v4": ("avx512f", "avx512vl", "avx512dq", "avx512bw"),
}
"""Processors that kernels are compiled for, and what the machine needs to run that code."""


@pytest.mark.parametrize("processor", LEVELS)
def test_code_for_this_processor_gives_the_same_bits(
    processor: str, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = [need for need in LEVELS[processor] if not HOST.get(need, False)]
    assert not missing, f"this machine lacks {', '.join(missing)}: run it on one that has them"
    compare(processor, capsys)
