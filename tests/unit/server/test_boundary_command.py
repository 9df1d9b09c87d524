"""``zeroulp boundary`` as people and scripts run it."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace

import pytest

from zeroulp.model.boundary.report import report
from zeroulp.model.compute_team import ComputeTeam
from zeroulp.server.cli import boundary as command

KEYS = """
    loss loss_bits logit_shape parameters named_tensors lookup_and_head_same_node same_text_wrapper_logits
    gradient_sample max_partition_error within_tolerance cached refusals
"""


def test_it_prints_one_json_object_and_exits_with_0() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "zeroulp.client", "boundary"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("\n") == 1
    found = json.loads(done.stdout)
    assert list(found) == KEYS.split()
    assert list(found["gradient_sample"]) == ["row", "feature", "total", "lookup_path", "head_path"]
    assert list(found["cached"]) == [
        "prefix",
        "cache_appends",
        "attention_score_values",
        "newest_logit_bit_mismatches",
        "graph_free",
    ]
    assert (found["loss"], found["loss_bits"]) == (5.668398842431571, "4016ac70bf03b620")
    assert found["logit_shape"] == [1, 3, 258]
    assert found["refusals"]["wrong_width"] == "vectors of width 3 were given; the backbone takes 4"


def test_a_broken_promise_exits_with_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = replace(report(ComputeTeam()), refusals={"wrong_width": None})
    monkeypatch.setattr(command, "report", lambda team: broken)
    assert command.boundary([]) == 1
    assert json.loads(capsys.readouterr().out)["refusals"] == {"wrong_width": None}


def test_it_takes_no_arguments(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        command.boundary(["--fast"])
    assert left.value.code == 2
    assert "--fast" in capsys.readouterr().err
