"""``zeroulp trace`` and ``zeroulp diff`` against a real server."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from wire.daemons import run
from wire.serving import Serving
from wire.traces import observed
from zeroulp.client import Client, bits_of

IDS = [0, 74, 314, 456, 384, 46]
GIVEN = ("--ids", ",".join(map(str, IDS)))


def said(*arguments: str) -> str:
    """Return what a command that succeeds writes."""
    done = run(*arguments)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_the_map_is_a_tree_with_shapes_and_one_shared_weight(glass: Serving) -> None:
    output = said("trace", *GIVEN, "--name", "embed", "--target", glass.target)
    assert "glass-default: 852,608 parameters" in output
    assert "── token_embedding: weight [1024, 128] = 131,072 -> embed [T, 128]" in output
    assert "── down: weight [341, 128] = 43,648 -> down [T, 128]" in output
    assert output.count("shares token_embedding.weight with token_embedding") == 1
    assert "── output_head: shares token_embedding.weight with token_embedding -> logits [T, 1024]" in output
    tree, snapshots = output.split("tokens 0,74,314,456,384,46; positions 0-5\n")
    assert len(tree.splitlines()) == 1 + 3 + 4 * 12
    embed, first, last, work = snapshots.splitlines()
    assert embed == "embed [6, 128]"
    assert first.split()[4] == last.split()[4] == "..."
    assert len(first.split()) == 1 + 3 + 1 + 3
    assert work.startswith("work: 6 token forwards, 0 cache appends")


def test_json_lines(glass: Serving) -> None:
    chosen = ("--cached-prefix", "2", "--positions", "5,2-3", "--name", "*.0.key", "--name", "logits")
    output = said("trace", *GIVEN, *chosen, "--json", "--target", glass.target)
    started, key, logits, finished = map(json.loads, output.splitlines())
    assert (started["token_ids"], started["positions"], started["tensors"]) == (IDS, [2, 3, 5], 2)
    assert (key["name"], key["shape"], logits["shape"]) == ("blocks.0.key", [3, 64], [3, 1024])
    assert finished["work"]["cache_appends"] == 6 * 4
    row = observed(glass.loaded.model, glass.context, IDS)["logits", 5]
    want = np.frombuffer(row)[[0, 1, 2, 1021, 1022, 1023]].tolist()
    assert logits["sample"][-1]["features"] == [0, 1, 2, 1021, 1022, 1023]
    assert logits["sample"][-1]["values"] == want
    assert logits["sample"][-1]["bits"] == [bits_of(value) for value in want]


@pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
def test_a_full_and_a_cached_pass_in_files(glass: Serving, tmp_path: Path, suffix: str) -> None:
    full, cached = str(tmp_path / f"full{suffix}"), str(tmp_path / f"cached{suffix}")
    trace = ("trace", *GIVEN, "--target", glass.target)
    assert f"63 tensors at 6 positions written to {full}" in said(*trace, "--out", full)
    output = said(*trace, "--cached-prefix", "2", "--out", cached, "--json")
    assert json.loads(output.splitlines()[-1])["out"] == cached
    assert "63 tensors compared" in said("diff", full, cached)
    arrays = dict(np.load(full)) if suffix == ".npz" else load_file(full)
    arrays.pop("__metadata__", None)
    got = {(name, t): row.tobytes() for name, values in arrays.items() for t, row in enumerate(values)}
    assert got == observed(glass.loaded.model, glass.context, IDS)


@pytest.mark.parametrize(
    ("arguments", "code", "word"),
    [
        ((*GIVEN, "--name", "nix"), 1, "INVALID_ARGUMENT_VALUE: names[0] is 'nix'"),
        ((*GIVEN, "--cached-prefix", "6"), 1, "prefix_tokens is 6 of 6 tokens"),
        ((*GIVEN, "--out", "file.txt"), 1, "file.txt: its name should end in .npz or .safetensors"),
        ((*GIVEN, "--out", "none/file.npz"), 1, "there is no folder none"),
        ((), 2, "one of the arguments --prompt --ids is required"),
        ((*GIVEN, "--positions", "3-1"), 2, "3-1 is not a run"),
        ((*GIVEN, "--positions", "0-9999999"), 2, "0-9999999 is not a run"),
        ((*GIVEN, "--positions", "x"), 2, "invalid positions value"),
    ],
)
def test_failures(glass: Serving, arguments: tuple[str, ...], code: int, word: str) -> None:
    done = run("trace", *arguments, "--target", glass.target)
    assert (done.returncode, done.stdout) == (code, "")
    assert word in done.stderr


def test_the_library_reads_whole_tensors(glass: Serving) -> None:
    want = observed(glass.loaded.model, glass.context, IDS)
    with Client(glass.target) as client:
        with client.trace(IDS, cached_prefix=4, names=["blocks.*"]) as trace:
            tensors = list(trace)
        assert len(tensors) == 60
        assert all(
            bytes(tensor.row(row)) == want[tensor.name, t]
            for tensor in tensors
            for row, t in enumerate(tensor.positions)
        )
        assert trace.work.decode_tokens == 2
        with client.prefill(IDS[:4]) as session:
            over = list(session.trace(IDS[4:], names=["logits"], positions=[5]))
            assert session.state().position == 4
        assert bytes(over[0].row(0)) == want["logits", 5]
        model_map = client.model().model_map
    assert model_map.modules[1].modules[1].modules[0].name == "blocks.0.attention.query"
    assert model_map.modules[-1].parameter is None
