from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from grpc_health.v1 import health_pb2
from grpc_health.v1.health import HealthServicer

from unit.client.fake_decoder import FakeDecoder, serving
from unit.client.test_generation import continued
from zeroulp.client.cli import main
from zeroulp.client.cli.output import f64_fields
from zeroulp.v1 import decoder_pb2 as pb

Capture = pytest.CaptureFixture[str]

pytestmark = pytest.mark.usefixtures("default_target")


def lines(capsys: Capture) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def stdin_of(content: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content), encoding="ascii"))


def test_generate_writes_the_text_and_then_its_statistics(decoder: FakeDecoder, capsys: Capture) -> None:
    decoder.tail = "!"
    assert main(["generate", "hey", "--max-new-tokens", "3"]) == 0
    out, err = capsys.readouterr()
    assert out == bytes(continued("hey", 3)[3:]).decode() + "!\n"
    assert err.startswith("zeroulp: 3 tokens, ")
    assert err.endswith("work: 6 token forwards, 12 cache appends, 60 attention score values\n")
    assert len(err.splitlines()) == 1
    assert decoder.sessions == {}


def test_generate_is_greedy_unless_told_otherwise(decoder: FakeDecoder) -> None:
    main(["generate", "hey"])
    arguments = (
        "--temperature 0.7 --top-k 5 --top-p 0.9 --min-p 0.1 --seed 18446744073709551615 --stop a --stop b"
    )
    penalties = "--repetition-penalty 1.1 --presence-penalty 0.2 --frequency-penalty 0.3 --ignore-end-tokens"
    main(["generate", "hey", *arguments.split(), *penalties.split()])
    first, second = decoder.requests
    assert isinstance(first, pb.GenerateRequest)
    assert first.sampling == pb.SamplingParameters(temperature=0.0)
    assert isinstance(second, pb.GenerateRequest)
    assert second.sampling == pb.SamplingParameters(
        temperature=0.7,
        top_k=5,
        top_p=0.9,
        min_p=0.1,
        repetition_penalty=1.1,
        presence_penalty=0.2,
        frequency_penalty=0.3,
        seed=(1 << 64) - 1,
    )
    assert list(second.stop) == ["a", "b"]
    assert second.ignore_end_tokens


def test_generate_in_json_has_an_object_a_line(decoder: FakeDecoder, capsys: Capture) -> None:
    decoder.tail = "é"
    assert (
        main(["generate", "--ids", "104,101", "--max-new-tokens", "2", "--json", "--top-entries", "1"]) == 0
    )
    started, first, second, finished = lines(capsys)
    assert started == {
        "event": "started",
        "session_id": "session-1",
        "prompt_ids": [104, 101],
        "position": 2,
        "seed": 99,
    }
    ids = continued("he", 2)
    assert first == {
        "event": "token",
        "position": 2,
        "token_id": ids[2],
        "text": chr(ids[2]),
        "log_probability": -1.0,
        "log_probability_bits": "bff0000000000000",
        "top_entries": [
            {"token_id": ids[2], "log_probability": -1.0, "log_probability_bits": "bff0000000000000"}
        ],
    }
    assert second["token_id"] == ids[3]
    assert (finished["event"], finished["reason"], finished["text"]) == ("finished", "LENGTH", "é")
    assert (finished["position"], finished["generated_tokens"], finished["stop"]) == (4, 2, None)
    assert finished["work"]["cache_appends"] == 8
    assert finished["total_work"]["token_forwards"] == 4


def test_json_has_no_infinities_but_bits() -> None:
    assert f64_fields("x", float("-inf")) == {"x": None, "x_bits": "fff0000000000000"}
    assert f64_fields("x", None) == {"x": None, "x_bits": None}


def test_log_probabilities_take_a_line_per_token(decoder: FakeDecoder, capsys: Capture) -> None:
    decoder.tail = "tail"
    assert main(["generate", "he", "--max-new-tokens", "1", "--log-probabilities", "--top-entries", "1"]) == 0
    token = continued("he", 1)[2]
    assert capsys.readouterr().out == (
        f"     2 {token:>6}  -1.000000 {chr(token)!r}  {token}:-1.000000\n"
        "text held back until the end: 'tail'\n"
    )


def test_a_prompt_of_a_dash_is_stdin_as_it_stands(
    decoder: FakeDecoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    stdin_of("é\n".encode(), monkeypatch)
    assert main(["generate", "-", "--max-new-tokens", "0"]) == 0
    assert decoder.requests[0].text == "é\n"  # type: ignore[attr-defined]


def test_stdin_that_is_not_utf8_is_told(
    decoder: FakeDecoder, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    stdin_of(b"\xff", monkeypatch)
    assert main(["score", "-"]) == 1
    assert capsys.readouterr().err.startswith("zeroulp: the input is not UTF-8: ")
    assert decoder.requests == []


def test_score_of_ids_against_targets(decoder: FakeDecoder, capsys: Capture) -> None:
    assert main(["score", "--ids", "0,99,100", "--targets", "99,100,1", "--json"]) == 0
    (line,) = lines(capsys)
    assert line == {
        "sequence": 0,
        "token_ids": [0, 99, 100],
        "target_ids": [99, 100, 1],
        "log_probabilities": [-0.5] * 3,
        "log_probability_bits": ["bfe0000000000000"] * 3,
        "greedy": [False, True, False],
        "sum_log_probability": -1.5,
        "sum_log_probability_bits": "bff8000000000000",
        "mean_nll": 0.5,
        "mean_nll_bits": "3fe0000000000000",
        "work": line["work"],
    }
    assert line["work"]["token_forwards"] == 3


def test_score_of_several_texts(capsys: Capture) -> None:
    assert main(["score", "abc", "d", "--json"]) == 0
    first, second = lines(capsys)
    assert (first["token_ids"], first["target_ids"]) == ([97, 98, 99], [98, 99])
    assert (second["sequence"], second["mean_nll"], second["mean_nll_bits"]) == (1, None, None)
    assert main(["score", "ab", "c"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "position  target  log-probability",
        "       0      98     -0.500000000  greedy",
        "sum -0.500000000 (bfe0000000000000), mean NLL 0.500000000 (3fe0000000000000)",
        "position  target  log-probability",
        "sum -0.000000000 (8000000000000000), mean NLL none",
    ]


def test_model_in_words_and_in_json(capsys: Capture) -> None:
    assert main(["model"]) == 0
    out = capsys.readouterr().out
    for said in (
        "fake",
        "512 in 1 tensors",
        "4,096 (f64)",
        "ab" * 32,
        "bytes",
        "full attention",
        "max sessions",
    ):
        assert said in out
    assert main(["model", "--json"]) == 0
    (line,) = lines(capsys)
    assert line["parameters"] == [{"name": "table", "shape": [128, 4], "storage": "f64"}]
    assert line["limits"]["max_sessions"] == 7


@pytest.fixture
def health() -> Iterator[HealthServicer]:
    health = HealthServicer()
    with serving(FakeDecoder(), health) as target, pytest.MonkeyPatch.context() as patch:
        patch.setenv("ZEROULP_TARGET", target)
        yield health


def test_health_is_the_exit_code(health: HealthServicer, capsys: Capture) -> None:
    for status, code, said in (
        ("SERVING", 0, "SERVING"),
        ("NOT_SERVING", 1, "NOT_SERVING"),
        ("UNKNOWN", 1, "NOT_SERVING"),
    ):
        health.set("", health_pb2.HealthCheckResponse.ServingStatus.Value(status))
        assert main(["health"]) == code
        assert capsys.readouterr().out == f"{said}\n"
    assert main(["health", "--json"]) == 1
    assert lines(capsys)[0]["serving"] is False


def test_health_of_nobody_is_an_error(capsys: Capture) -> None:
    assert main(["health", "--target", "127.0.0.1:1"]) == 1
    assert capsys.readouterr().err.startswith("zeroulp: UNAVAILABLE: no server answers at 127.0.0.1:1: ")
