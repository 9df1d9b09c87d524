"""What Trace refuses: by reason and field, before any block ran, and leaving nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NoReturn

import grpc
import numpy as np
import pytest

from wire.calls import Failure, close, failure, failure_of, ids, prefill
from wire.models import known_model
from wire.serving import CACHE_BYTES, Serving, serving
from wire.traces import trace
from zeroulp.model.composition.language_model import LanguageModel
from zeroulp.server.engine.limits import Limits
from zeroulp.v1 import decoder_pb2 as pb

NAME = "grouped-query-7"
FAR = 2**64 - 1
IDS = [5, 6, 7, 8]
ROW_BYTES = 300 * 8
"""Of its logits."""
INVALID = grpc.StatusCode.INVALID_ARGUMENT
NOT_FOUND = grpc.StatusCode.NOT_FOUND
EXHAUSTED = grpc.StatusCode.RESOURCE_EXHAUSTED


@pytest.fixture
def nothing_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every forward an internal error."""

    def forward(*_: object) -> NoReturn:
        raise AssertionError("something was computed")

    monkeypatch.setattr(LanguageModel, "forward", forward)


def refused(serving: Serving, **fields: Any) -> Failure:
    """Return the failure of a trace, which must leave nothing behind."""
    before = serving.footprint
    told = failure(lambda: list(serving.stub.Trace(pb.TraceRequest(**fields))))
    assert serving.footprint == before
    return told


@pytest.mark.usefixtures("nothing_runs")
@pytest.mark.parametrize(
    ("fields", "code", "reason", "field"),
    [
        ({}, INVALID, "EMPTY_PROMPT", "input"),
        ({"token_ids": ids()}, INVALID, "EMPTY_PROMPT", "token_ids"),
        ({"token_ids": ids(5, 300)}, INVALID, "TOKEN_OUT_OF_RANGE", "token_ids[1]"),
        ({"token_ids": ids(*[1] * 65)}, grpc.StatusCode.OUT_OF_RANGE, "CONTEXT_FULL", "token_ids"),
        ({"token_ids": ids(*IDS), "prefix_tokens": 0}, INVALID, "INVALID_ARGUMENT_VALUE", "prefix_tokens"),
        ({"token_ids": ids(*IDS), "prefix_tokens": 4}, INVALID, "INVALID_ARGUMENT_VALUE", "prefix_tokens"),
        (
            {"token_ids": ids(*IDS), "session_id": "none"},
            grpc.StatusCode.NOT_FOUND,
            "SESSION_UNKNOWN",
            "session_id",
        ),
        ({"token_ids": ids(*IDS), "names": ["embed", "nix"]}, INVALID, "INVALID_ARGUMENT_VALUE", "names[1]"),
        ({"token_ids": ids(*IDS), "names": ["*"] * 65}, INVALID, "INVALID_ARGUMENT_VALUE", "names"),
        ({"token_ids": ids(*IDS), "names": ["é" * 129]}, INVALID, "INVALID_ARGUMENT_VALUE", "names[0]"),
        ({"token_ids": ids(*IDS), "positions": [4]}, INVALID, "INVALID_ARGUMENT_VALUE", "positions[0]"),
        (
            {"token_ids": ids(*IDS), "positions": [FAR]},
            INVALID,
            "INVALID_ARGUMENT_VALUE",
            "positions[0]",
        ),
        ({"token_ids": ids(*IDS), "positions": [1, 1]}, INVALID, "INVALID_ARGUMENT_VALUE", "positions[1]"),
        ({"token_ids": ids(*IDS), "positions": [2, 1]}, INVALID, "INVALID_ARGUMENT_VALUE", "positions[1]"),
        (
            {"token_ids": ids(*IDS), "prefix_tokens": 2, "positions": [1]},
            INVALID,
            "INVALID_ARGUMENT_VALUE",
            "positions[0]",
        ),
        ({"text": "ab"}, INVALID, "INVALID_ARGUMENT_VALUE", "text"),
    ],
)
def test_input_that_cannot_be_traced(
    grouped: Serving, fields: dict[str, Any], code: grpc.StatusCode, reason: str, field: str
) -> None:
    told = refused(grouped, **fields)
    assert (told.code, told.reason, told.fields) == (code, reason, [field])


@pytest.mark.usefixtures("nothing_runs")
def test_messages_name_what_is_allowed(grouped: Serving) -> None:
    assert "prefix_tokens is 4 of 4 tokens" in refused(grouped, token_ids=ids(*IDS), prefix_tokens=4).message
    told = refused(grouped, token_ids=ids(*IDS), prefix_tokens=2, positions=[2, 9])
    assert "positions[1] is 9" in told.message
    assert "the traced positions are 2 to 3" in told.message
    assert (
        "names has 65 patterns; 64 are allowed"
        in refused(grouped, token_ids=ids(*IDS), names=["*"] * 65).message
    )
    assert (
        "names[0] has 258 bytes; 256 are allowed"
        in refused(grouped, token_ids=ids(*IDS), names=["é" * 129]).message
    )


def test_a_session_without_room_for_the_tokens(grouped: Serving) -> None:
    opened = prefill(grouped.stub, [1] * 62).session_id
    told = refused(grouped, token_ids=ids(1, 2, 3), session_id=opened)
    assert told.reason == "CONTEXT_FULL"
    assert (told.metadata["requested_positions"], told.metadata["max_positions"]) == ("65", "64")
    assert refused(grouped, session_id=opened).reason == "EMPTY_PROMPT"
    close(grouped.stub, opened)


@pytest.fixture
def narrow() -> Iterator[Serving]:
    """A server whose traces may keep 4 rows of logits."""
    limits = Limits(cache_bytes=CACHE_BYTES, max_trace_bytes=4 * ROW_BYTES)
    with serving(known_model(NAME), limits) as served:
        yield served


def test_a_trace_that_is_too_large_is_refused_with_both_numbers(
    narrow: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert trace(narrow.stub, IDS, names=["logits"]).tensors["logits"].shape == (4, 300)
    with monkeypatch.context() as patch:
        patch.setattr(LanguageModel, "forward", None)
        told = refused(narrow, token_ids=ids(*IDS, 9), names=["logits"])
    assert (told.code, told.reason, told.retry_seconds, told.pushback) == (
        EXHAUSTED,
        "MESSAGE_TOO_LARGE",
        None,
        "-1",
    )
    assert told.metadata == {"trace_bytes": str(5 * ROW_BYTES), "max_trace_bytes": str(4 * ROW_BYTES)}
    # The same tokens at fewer positions fit.
    assert trace(narrow.stub, [*IDS, 9], names=["logits"], positions=[4]).positions == [4]


def outcome(stream: Any) -> int | Failure:
    """Return the number of a trace's events, or how it failed."""
    try:
        return len(list(stream))
    except grpc.RpcError as error:
        return failure_of(error)


def test_traces_under_way_share_the_room(narrow: Serving) -> None:
    with narrow.paused():
        streams = [
            narrow.stub.Trace(pb.TraceRequest(token_ids=ids(*IDS), names=["logits"])) for _ in range(2)
        ]
        narrow.wait_for_calls(3)
    outcomes = [outcome(stream) for stream in streams]
    (told,) = [found for found in outcomes if isinstance(found, Failure)]
    assert [found for found in outcomes if not isinstance(found, Failure)] == [3]
    assert (told.code, told.reason, told.retry_seconds) == (EXHAUSTED, "QUEUE_FULL", 1.0)
    assert told.metadata["held_bytes"] == told.metadata["trace_bytes"] == str(4 * ROW_BYTES)
    narrow.check_blocks()
    assert trace(narrow.stub, IDS, names=["logits"]).positions == [0, 1, 2, 3]


def test_a_row_or_a_start_that_is_no_message() -> None:
    with serving(known_model(NAME), Limits(cache_bytes=CACHE_BYTES, max_message_bytes=6000)) as served:
        told = refused(served, token_ids=ids(*IDS))
        assert (told.reason, told.metadata["max_message_bytes"]) == ("MESSAGE_TOO_LARGE", "6000")
        assert trace(served.stub, IDS, names=["embed"]).positions == [0, 1, 2, 3]
    with serving(known_model(NAME), Limits(cache_bytes=CACHE_BYTES, max_message_bytes=4096 + 500)) as served:
        assert refused(served, token_ids=ids(*[1] * 60), names=["*.key"]).reason == "MESSAGE_TOO_LARGE"


def test_a_cache_without_room(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(known_model(NAME), Limits(cache_bytes=1)) as served:  # one block
        told = refused(served, token_ids=ids(*[1] * 40))
        assert told.reason == "CACHE_BUDGET"
        opened = prefill(served.stub, IDS).session_id
        assert refused(served, token_ids=ids(1)).reason == "CACHE_BUDGET"
        assert refused(served, token_ids=ids(*[1] * 40), session_id=opened).reason == "CACHE_BUDGET"
        assert trace(served.stub, [1], session_id=opened).positions == [4]


@pytest.mark.parametrize("prefix", [None, 2, 3])
def test_a_value_that_is_not_finite_fails_by_name(prefix: int | None) -> None:
    loaded = known_model(NAME)
    table = loaded.model.parameters["token_embedding.weight"]
    values = table.values()
    values[250, 3] = np.nan
    table.set_value(values)
    chosen = {} if prefix is None else {"prefix_tokens": prefix}
    with serving(loaded) as served:
        told = refused(served, token_ids=ids(1, 2, 250, 4), names=["embed"], **chosen)
        assert (told.code, told.reason) == (grpc.StatusCode.DATA_LOSS, "NON_FINITE")
        assert told.metadata == {"stage": "embedding"}
        # A row of the spoilt table is in every logit.
        told = refused(served, token_ids=ids(1, 2, 3), names=["logits"])
        assert told.metadata == {"stage": "logits"}
        assert trace(served.stub, [1, 2, 3], names=["final_norm"]).positions == [0, 1, 2]


def test_a_server_that_drains_finishes_its_traces_and_takes_no_more() -> None:
    with serving(known_model(NAME)) as served:
        with served.paused():
            stream = served.stub.Trace(pb.TraceRequest(token_ids=ids(*IDS), names=["embed"]))
            served.wait_for_calls(2)
            served.engine.drain(0.0)
        assert [event.WhichOneof("event") for event in stream] == ["started", "part", "finished"]
        assert (
            failure(lambda: list(served.stub.Trace(pb.TraceRequest(token_ids=ids(1))))).reason == "DRAINING"
        )
