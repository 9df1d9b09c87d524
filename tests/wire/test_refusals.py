"""Refused calls: what they tell, and that they leave nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import grpc
import pytest

from wire.calls import Failure, decode, failure, generate, ids, prefill, rows, score_rows, session
from wire.serving import Serving
from zeroulp.v1 import decoder_pb2 as pb
from zeroulp.v1.decoder_pb2_grpc import DecoderServiceStub

INVALID = grpc.StatusCode.INVALID_ARGUMENT
OUT_OF_RANGE = grpc.StatusCode.OUT_OF_RANGE
PROMPT = [5, 6, 7]
POSITIONS = 64
BAD = 300
"""The first id outside the vocabulary."""

CHAT = pb.Chat(messages=[pb.ChatMessage(role="user", content="Hi")])

Call = Callable[[DecoderServiceStub, str], object]


@dataclass(frozen=True)
class Case:
    """A refused call and its status."""

    name: str
    call: Call
    code: grpc.StatusCode
    reason: str
    field: str
    says: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.name


def _prefill(*tokens: int) -> Call:
    return lambda stub, _: prefill(stub, tokens)


def _decode(*tokens: int) -> Call:
    return lambda stub, opened: decode(stub, opened, tokens)


def _score(sequence: pb.ScoreSequence) -> Call:
    good = pb.ScoreSequence(token_ids=ids(1, 2))
    return lambda stub, _: stub.Score(pb.ScoreRequest(sequences=[good, sequence]))


def _generate(request: pb.GenerateRequest, *, on_session: bool = True) -> Call:
    def call(stub: DecoderServiceStub, opened: str) -> object:
        asked = pb.GenerateRequest()
        asked.CopyFrom(request)
        if on_session:
            asked.session_id = opened
        return generate(stub, asked)

    return call


TOKEN, FULL, EMPTY, VALUE = "TOKEN_OUT_OF_RANGE", "CONTEXT_FULL", "EMPTY_PROMPT", "INVALID_ARGUMENT_VALUE"
CASES = [
    Case("bad token in a prompt", _prefill(1, 2, BAD, 4), INVALID, TOKEN, "token_ids[2]", ("300", "299")),
    Case("largest token in a prompt", _prefill(1, 2**32 - 1), INVALID, TOKEN, "token_ids[1]"),
    Case("bad token in a decode", _decode(1, 2, BAD), INVALID, TOKEN, "token_ids[2]"),
    Case("bad token in a score", _score(pb.ScoreSequence(token_ids=ids(1, BAD))), INVALID, TOKEN,
         "sequences[1].token_ids[1]"),
    Case("bad target in a score", _score(pb.ScoreSequence(token_ids=ids(1, 2), targets=ids(2, BAD))),
         INVALID, TOKEN, "sequences[1].targets[1]"),
    Case("bad token in a generation", _generate(pb.GenerateRequest(token_ids=ids(1, BAD, 2))), INVALID, TOKEN,
         "token_ids[1]"),
    Case("bad token in a prompt to go on from",
         _generate(pb.GenerateRequest(token_ids=ids(1, BAD, 2)), on_session=False), INVALID, TOKEN,
         "token_ids[1]"),
    Case("empty prompt", _prefill(), INVALID, EMPTY, "token_ids"),
    Case("no prompt", lambda stub, _: stub.Prefill(pb.PrefillRequest()), INVALID, EMPTY, "input"),
    Case("empty decode", _decode(), INVALID, EMPTY, "token_ids"),
    Case("empty sequence", _score(pb.ScoreSequence(token_ids=ids())),
         INVALID, EMPTY, "sequences[1].token_ids"),
    Case("no sequence input", _score(pb.ScoreSequence()), INVALID, EMPTY, "input"),
    Case("generation from nothing", _generate(pb.GenerateRequest(max_new_tokens=1), on_session=False),
         INVALID, EMPTY, "input"),
    Case("generation from an empty prompt", _generate(pb.GenerateRequest(token_ids=ids()), on_session=False),
         INVALID, EMPTY, "token_ids"),
    Case("over-long prompt", _prefill(*[1] * 65), OUT_OF_RANGE, FULL, "token_ids", ("65", "64")),
    Case("over-long decode", _decode(*[1] * 62), OUT_OF_RANGE, FULL, "token_ids", ("65", "64")),
    Case("over-long sequence", _score(pb.ScoreSequence(token_ids=ids(*[1] * 65))), OUT_OF_RANGE, FULL,
         "sequences[1].token_ids", ("65", "64")),
    Case("over-long generation", _generate(pb.GenerateRequest(max_new_tokens=62)), OUT_OF_RANGE, FULL,
         "max_new_tokens", ("65", "64")),
    Case("over-long input and generation",
         _generate(pb.GenerateRequest(token_ids=ids(1, 2), max_new_tokens=60)),
         OUT_OF_RANGE, FULL, "max_new_tokens", ("65", "64")),
    Case("largest generation", _generate(pb.GenerateRequest(max_new_tokens=2**32 - 1)), OUT_OF_RANGE, FULL,
         "max_new_tokens", ("64",)),
    Case("text without a tokenizer", lambda stub, _: stub.Prefill(pb.PrefillRequest(text="a")),
         INVALID, VALUE, "text"),
    Case("stop string without a tokenizer", _generate(pb.GenerateRequest(stop=["a"])),
         INVALID, VALUE, "stop"),
    Case("chat without a template",
         lambda stub, _: stub.Prefill(pb.PrefillRequest(chat=CHAT)),
         INVALID, VALUE, "chat"),
    Case("chat on a session", _generate(pb.GenerateRequest(chat=pb.Chat())), INVALID, VALUE, "chat"),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_refused_call_tells_why_and_changes_nothing(grouped: Serving, case: Case) -> None:
    stub = grouped.stub
    opened, twin = prefill(stub, PROMPT).session_id, prefill(stub, PROMPT).session_id
    before, footprint = session(stub, opened), grouped.footprint
    told = failure(lambda: case.call(stub, opened))
    assert (told.code, told.reason, told.fields) == (case.code, case.reason, [case.field])
    assert (told.retry_seconds, told.pushback) == (None, None)
    for word in case.says:
        assert word in told.message
    if case.reason == FULL:
        assert told.metadata["max_positions"] == str(POSITIONS)
        assert int(told.metadata["requested_positions"]) > POSITIONS
    assert session(stub, opened) == before
    assert grouped.footprint == footprint
    _check_twins(grouped, opened, twin)


def _check_twins(serving: Serving, opened: str, twin: str) -> None:
    """Fail unless two sessions of the same prompt go on alike, in bits and in counters."""
    decoded, expected = decode(serving.stub, opened, [9]), decode(serving.stub, twin, [9])
    assert decoded == expected
    assert rows(decoded.logits)[0] == score_rows(serving.stub, [*PROMPT, 9])[-1]


def test_a_token_of_the_last_id_and_a_full_context_are_allowed(grouped: Serving) -> None:
    tokens = [BAD - 1] * POSITIONS
    assert prefill(grouped.stub, tokens).position == POSITIONS
    assert len(score_rows(grouped.stub, tokens)) == POSITIONS
    opened = prefill(grouped.stub, tokens[:-1])
    assert decode(grouped.stub, opened.session_id, tokens[-1:]).position == POSITIONS


def test_an_unknown_session_is_not_found(grouped: Serving) -> None:
    stub = grouped.stub
    for call in (
        lambda: decode(stub, "nobody", [1]),
        lambda: session(stub, "nobody"),
        lambda: stub.CloseSession(pb.CloseSessionRequest(session_id="nobody")),
        lambda: stub.CloseSession(pb.CloseSessionRequest()),
        lambda: generate(stub, pb.GenerateRequest(session_id="nobody")),
        lambda: generate(stub, pb.GenerateRequest(session_id="", token_ids=ids(1))),
        lambda: generate(stub, pb.GenerateRequest(session_id="nobody", resume_position=1)),
    ):
        told: Failure = failure(call)
        assert (told.code, told.reason, told.fields) == (
            grpc.StatusCode.NOT_FOUND,
            "SESSION_UNKNOWN",
            ["session_id"],
        )
        assert "prefill" in told.message


def test_a_closed_session_is_unknown_and_its_blocks_are_free(grouped: Serving) -> None:
    footprint = grouped.footprint
    opened = prefill(grouped.stub, PROMPT)
    assert grouped.footprint[1] == footprint[1] - 1
    closed = grouped.stub.CloseSession(pb.CloseSessionRequest(session_id=opened.session_id))
    assert (closed.position, closed.total_work) == (3, opened.total_work)
    assert grouped.footprint == footprint
    assert failure(lambda: decode(grouped.stub, opened.session_id, [1])).reason == "SESSION_UNKNOWN"


def test_tokenizer_calls_name_what_they_refuse(boundary: Serving, grouped: Serving) -> None:
    stub = boundary.stub
    told = failure(lambda: stub.Detokenize(pb.DetokenizeRequest(token_ids=ids(99, 258))))
    assert (told.code, told.reason) == (INVALID, TOKEN)
    assert failure(lambda: stub.Tokenize(pb.TokenizeRequest())).reason == EMPTY
    told = failure(lambda: stub.Tokenize(pb.TokenizeRequest(chat=pb.Chat())))
    assert (told.reason, told.fields) == (VALUE, ["chat"])
    told = failure(lambda: grouped.stub.Tokenize(pb.TokenizeRequest(text="a")))
    assert (told.reason, told.fields) == (VALUE, ["text"])
    assert failure(lambda: grouped.stub.Detokenize(pb.DetokenizeRequest())).reason == VALUE
