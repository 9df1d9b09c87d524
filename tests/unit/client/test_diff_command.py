"""``zeroulp diff``: what it says, and its exit codes."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from unit.client.trace_files.files import tensors, written
from zeroulp.client import bits_of
from zeroulp.client.cli import main
from zeroulp.client.trace_files.facts import Facts


@pytest.fixture
def altered(tmp_path: Path) -> tuple[str, str]:
    """Two files of other formats; one value of the second is three ulps away."""
    arrays = tensors()
    value = arrays["blocks.0.gate"][1, 5]
    for _ in range(3):
        value = math.nextafter(value, math.inf)
    arrays["blocks.0.gate"][1, 5] = value
    return str(written(tmp_path / "a.safetensors")), str(written(tmp_path / "b.npz", arrays))


def test_equal_files_exit_with_0(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a, b = written(tmp_path / "a.safetensors"), written(tmp_path / "b.npz")
    assert main(["diff", str(a), str(b)]) == 0
    assert "5 tensors compared, 90 values in all: 5 equal in every bit" in capsys.readouterr().out
    assert main(["diff", str(a), str(b), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["equal"], told["first"], len(told["tensors"])) == (True, None, 5)


def test_an_altered_value_is_named_with_its_bits(
    altered: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["diff", *altered]) == 1
    said = capsys.readouterr().out
    before = float(tensors()["blocks.0.gate"][1, 5])
    assert "first difference: blocks.0.gate, position 5, feature 5" in said
    assert "distance: 3 ulps" in said
    assert bits_of(before) in said
    assert "4 equal in every bit" in said
    assert main(["diff", *altered, "--json"]) == 1
    first = json.loads(capsys.readouterr().out)["first"]
    assert (first["tensor"], first["position"], first["feature"]) == ("blocks.0.gate", 5, 5)
    assert (first["a_bits"], first["ulps"]) == (bits_of(before), 3)


def test_what_cannot_be_compared_exits_with_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a, other = written(tmp_path / "a.npz"), written(tmp_path / "b.npz", {"x": np.ones((1, 1))}, Facts())
    (tmp_path / "damaged.npz").write_bytes(b"PK")
    for name, word in (
        ("none.npz", "none.npz"),
        ("damaged.npz", "cannot be read"),
        ("a.txt", "should end in"),
    ):
        assert main(["diff", str(a), str(tmp_path / name)]) == 2
        assert word in capsys.readouterr().err
    assert main(["diff", str(a), str(other), "--json"]) == 2
    told = capsys.readouterr()
    assert "no tensor has the same name" in json.loads(told.err)["error"]["message"]
    assert told.out == ""


def test_other_tensors_shapes_and_types_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arrays = tensors()
    narrow: dict[str, Any] = {
        "embed": arrays["embed"].astype(np.float32),
        "logits": arrays["logits"][:, :2],
        "extra": arrays["embed"],
    }
    a, b = written(tmp_path / "a.npz"), written(tmp_path / "b.npz", narrow, Facts(positions=(4, 5, 6)))
    assert main(["diff", str(a), str(b)]) == 1
    said = capsys.readouterr().out
    assert "3 tensors of float32 and float64" in said
    assert "other shapes: logits is [3, 11] in A and [3, 2] in B" in said
    assert "only in A: blocks.0.query, blocks.0.gate, final_norm" in said
    assert "only in B: extra" in said
    assert "(float64 against float32)" in said
    assert "(widened from float32)" in said
    assert main(["diff", str(a), str(b), "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert (told["only_b"], told["shape_mismatches"][0]["name"]) == (["extra"], "logits")


def test_a_nan_has_no_distance(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arrays = tensors()
    arrays["embed"][0, 0] = np.nan
    a, b = str(written(tmp_path / "a.npz")), str(written(tmp_path / "b.npz", arrays))
    assert main(["diff", a, b]) == 1
    said = capsys.readouterr().out
    assert "distance: none, as one is a NaN" in said
    assert "none (NaN)" in said
    assert main(["diff", a, b, "--json"]) == 1
    first = json.loads(capsys.readouterr().out)["first"]
    assert (first["b"], first["b_bits"], first["ulps"]) == (None, "7ff8000000000000", None)
