"""The command line against a real daemon."""

from __future__ import annotations

import json
from typing import Any

import pytest

from wire.calls import GREEDY, generate, ids
from wire.daemons import Daemon, run
from zeroulp.client import bits_of
from zeroulp.v1 import decoder_pb2 as pb


def _lines(daemon: Daemon, *arguments: str) -> list[dict[str, Any]]:
    result = run(*arguments, "--json", "--target", daemon.target)
    assert (result.returncode, result.stderr) == (0, "")
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_score(boundary_daemon: Daemon) -> None:
    (score,) = _lines(boundary_daemon, "score", "--ids", "0,99,100", "--targets", "99,100,1")
    assert score["mean_nll_bits"] == "4016ac70bf03b620"
    assert _lines(boundary_daemon, "score", "ab")[0]["mean_nll_bits"] == "4016ac70bf03b620"


def test_generate(boundary_daemon: Daemon) -> None:
    arguments = ("generate", "--ids", "0,99", "--max-new-tokens", "4", "--ignore-end-tokens")
    started, *tokens, finished = _lines(boundary_daemon, *arguments)
    request = pb.GenerateRequest(
        token_ids=ids(0, 99),
        max_new_tokens=4,
        sampling=GREEDY,
        ignore_end_tokens=True,
        log_probabilities=True,
    )
    expected = generate(boundary_daemon.stub, request)
    assert (started["event"], finished["event"], finished["reason"]) == ("started", "finished", "LENGTH")
    assert [(token["token_id"], token["log_probability_bits"]) for token in tokens] == [
        (token.token_id, bits_of(token.log_probability)) for token in expected.tokens
    ]
    assert finished["work"]["cache_appends"] == 2 * 6


def test_model_and_health(boundary_daemon: Daemon) -> None:
    assert _lines(boundary_daemon, "model")[0]["parameter_count"] == 1372
    assert _lines(boundary_daemon, "health")[0]["serving"] is True


def test_failures(boundary_daemon: Daemon) -> None:
    result = run("generate", "--ids", "0,258", "--json", "--target", boundary_daemon.target)
    assert (result.returncode, result.stdout) == (1, "")
    assert json.loads(result.stderr)["error"]["reason"] == "TOKEN_OUT_OF_RANGE"
    result = run("chat", "--message", "Hi", "--target", boundary_daemon.target)
    assert (result.returncode, "chat template" in result.stderr) == (1, True)
    assert run("health", "--target", "127.0.0.1:1").returncode == 1


@pytest.mark.real_model
def test_chat(real_daemon: Daemon) -> None:
    arguments = ("chat", "--message", "What is the capital of France?", "--max-new-tokens", "24")
    *_, message = _lines(real_daemon, *arguments)
    assert (message["event"], message["role"]) == ("message", "assistant")
    assert "Paris" in message["content"]
