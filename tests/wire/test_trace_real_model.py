"""SmolLM2-135M-Instruct, traced in full and over a cache."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from wire.daemons import Daemon, run

pytestmark = pytest.mark.real_model

IDS = "504,3575,282,4649,314,7042,28,284,260,3575,282,6760,314,9195,30,378,3575,282,4391,314"
"""20 tokens."""
TENSORS = 3 + 30 * 15


@pytest.fixture(scope="module")
def files(real_daemon: Daemon, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("traces")
    found = {"full": folder / "full.safetensors", "cached": folder / "cached.npz"}
    for name, options in (("full", ()), ("cached", ("--cached-prefix", "12"))):
        done = run("trace", "--ids", IDS, *options, "--out", str(found[name]), "--target", real_daemon.target)
        assert done.returncode == 0, done.stderr
    return found


def test_full_and_cached_agree_in_every_bit(files: dict[str, Path]) -> None:
    done = run("diff", str(files["full"]), str(files["cached"]))
    assert done.returncode == 0, done.stderr
    assert (
        f"{TENSORS} tensors compared, {8 * 361_344:,} values in all: {TENSORS} equal in every bit"
        in done.stdout
    )


def test_one_altered_value_is_named(files: dict[str, Path], tmp_path: Path) -> None:
    altered = tmp_path / "altered.npz"
    with np.load(files["cached"]) as archive:
        arrays = dict(archive)
    before = arrays["blocks.17.swiglu"][5, 801]
    arrays["blocks.17.swiglu"][5, 801] = math.nextafter(before, math.inf)
    np.savez(altered, allow_pickle=False, **arrays)
    done = run("diff", str(files["full"]), str(altered))
    assert done.returncode == 1
    assert "first difference: blocks.17.swiglu, position 17, feature 801" in done.stdout
    assert "distance: 1 ulp\n" in done.stdout
