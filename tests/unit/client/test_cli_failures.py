from __future__ import annotations

import json

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo, RetryInfo

from unit.client.fake_decoder import FakeDecoder, rich
from unit.client.test_cli import Capture
from zeroulp.client.cli import main

pytestmark = pytest.mark.usefixtures("default_target")

REFUSED = rich(
    grpc.StatusCode.RESOURCE_EXHAUSTED,
    "the queue\nis full",
    ErrorInfo(domain="zeroulp", reason="QUEUE_FULL", metadata={"max_queued_calls": "9"}),
    RetryInfo(retry_delay=Duration(nanos=500_000_000)),
    BadRequest(field_violations=[BadRequest.FieldViolation(field="text", description="too much")]),
)


def test_an_error_is_one_line_on_stderr(decoder: FakeDecoder, capsys: Capture) -> None:
    decoder.failures["Score"] = REFUSED
    assert main(["score", "x"]) == 1
    assert capsys.readouterr() == (
        "",
        "zeroulp: QUEUE_FULL: the queue is full (text: too much); try again in 0.5 s\n",
    )


def test_a_violation_in_the_messages_own_words_is_said_once(decoder: FakeDecoder, capsys: Capture) -> None:
    violation = BadRequest(field_violations=[BadRequest.FieldViolation(field="ids[1]", description="out")])
    info = ErrorInfo(domain="zeroulp", reason="TOKEN_OUT_OF_RANGE")
    decoder.failures["Score"] = rich(grpc.StatusCode.INVALID_ARGUMENT, "out", info, violation)
    assert main(["score", "x"]) == 1
    assert capsys.readouterr().err == "zeroulp: TOKEN_OUT_OF_RANGE: out (ids[1])\n"


def test_an_error_under_json_is_an_object_on_stderr(decoder: FakeDecoder, capsys: Capture) -> None:
    decoder.failures["Score"] = REFUSED
    assert main(["score", "x", "--json"]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert json.loads(err) == {
        "error": {
            "code": "RESOURCE_EXHAUSTED",
            "reason": "QUEUE_FULL",
            "message": "the queue\nis full",
            "metadata": {"max_queued_calls": "9"},
            "violations": [{"field": "text", "description": "too much"}],
            "retry_after_seconds": 0.5,
        }
    }


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["sing"],
        ["generate"],
        ["generate", "x", "--ids", "1"],
        ["generate", "--ids", "1,-1"],
        ["generate", "--ids", "4294967296"],
        ["generate", "x", "--seed", "18446744073709551616"],
        ["generate", "\udcff"],
        ["score"],
        ["score", "x", "--ids", "1"],
        ["score", "x", "--targets", "1"],
    ],
)
def test_wrong_usage_asks_nobody(decoder: FakeDecoder, capsys: Capture, arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(arguments)
    assert left.value.code == 2
    assert "usage: zeroulp" in capsys.readouterr().err
    assert decoder.requests == []


def test_empty_ids_are_the_servers_to_refuse(decoder: FakeDecoder) -> None:
    main(["generate", "--ids", "", "--max-new-tokens", "0"])
    assert decoder.requests[0].WhichOneof("input") == "token_ids"
