"""The daemon and the command line as an operator uses them: serve a file, train it further, reload."""

from __future__ import annotations

import json
from pathlib import Path

from wire.admins import write_model, write_token
from wire.calls import prefill, rows
from wire.daemons import daemon, run
from wire.models import seeded
from zeroulp.model.loading import load


def test_a_file_that_was_replaced_is_served_after_a_reload(tmp_path: Path) -> None:
    built_in = load("boundary-39")
    other = seeded("other", built_in.model.configuration, 40).model
    token = str(write_token(tmp_path / "token"))
    path = write_model(tmp_path / "model.safetensors", built_in)
    with daemon(path, "--admin-token-file", token) as running:
        command = ("reload", "--target", running.target, "--token-file", token)
        before = prefill(running.stub, [0, 99])
        write_model(tmp_path / "model.safetensors", built_in, other)
        done = run(*command, "--json")
        assert (done.returncode, done.stderr) == (0, "")
        told = json.loads(done.stdout)
        assert told["parameters_digest_before"] == built_in.model.parameters.digest()
        assert told["parameters_digest_after"] == other.parameters.digest()
        after = prefill(running.stub, [0, 99])
        assert rows(after.logits) != rows(before.logits)
        refused = run(*command, "glass-default")
        assert (refused.returncode, refused.stdout) == (1, "")
        assert "vocabulary_size is 1024, and 258 is served" in refused.stderr
        (line,) = [line for line in running.log_lines if line["event"] == "reloaded"]
        assert line["digest_after"] == told["parameters_digest_after"]
        with daemon(path) as fresh:
            assert rows(prefill(fresh.stub, [0, 99]).logits) == rows(after.logits)
