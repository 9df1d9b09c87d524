"""The same bits on other processors: kernels compiled for less, and a C library that may use less.

`every_processor.py` beside this compares what lies between (``make processors``); each compiles all anew.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from processors import digests

PROGRAM = Path(digests.__file__)
MASKS = "-AVX512F,-AVX2,-AVX2_Usable,-FMA,-FMA_Usable,-FMA4,-AVX_Usable"
"""glibc's tunable names, of older and newer versions: what it does not know it ignores."""


@cache
def here() -> dict[str, list[object]]:
    return {name: list(found) for name, found in digests.digests().items()}


def elsewhere(**environment: str) -> dict[str, list[object]]:
    paths = os.pathsep.join(path for path in sys.path if path)
    ended = subprocess.run(
        [sys.executable, str(PROGRAM)],
        env={**os.environ, "PYTHONPATH": paths, **environment},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    found: dict[str, list[object]] = json.loads(ended.stdout)
    return found


def compare(processor: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Compare every case of a process whose kernels are compiled for ``processor`` with this one's."""
    found = elsewhere(NUMBA_CPU_NAME=processor, NUMBA_CPU_FEATURES="")
    assert found == here()
    values = sum(int(str(count)) for _, count in found.values())
    with capsys.disabled():
        print(f"\n{processor}: {values} values in {len(found)} cases, 0 bits different")


def test_code_for_the_plainest_processor_gives_the_same_bits(capsys: pytest.CaptureFixture[str]) -> None:
    compare("generic", capsys)


def test_a_c_library_without_fused_multiply_adds_gives_the_same_bits() -> None:
    assert (
        elsewhere(GLIBC_TUNABLES=f"glibc.cpu.hwcaps={MASKS}", NPY_DISABLE_CPU_FEATURES="AVX2 FMA3") == here()
    )
