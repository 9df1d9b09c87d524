"""The servicer turns messages into calls and outcomes into messages; grpc_testing is the transport."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import grpc
import grpc_testing  # type: ignore[import-untyped]
import numpy as np
import pytest

from zeroulp.model.compute_team import ComputeTeam
from zeroulp.model.context import NoGrad
from zeroulp.model.full_forward import full_forward
from zeroulp.model.loading import LoadedModel, load
from zeroulp.model.probabilities import log_probabilities
from zeroulp.server.engine.engine import Engine
from zeroulp.server.engine.limits import Limits
from zeroulp.server.wire.call_record import CallRecord, current_record
from zeroulp.server.wire.model_card import ModelCard
from zeroulp.server.wire.service import DecoderService
from zeroulp.v1 import decoder_pb2 as pb

SERVICE = pb.DESCRIPTOR.services_by_name["DecoderService"]


class Recorded:
    """Gives every call the record that the interceptor would give it."""

    def __init__(self, service: DecoderService) -> None:
        self._service = service
        self.records: list[CallRecord] = []
        self.errors: list[BaseException] = []

    def __getattr__(self, method: str) -> Any:
        handle = getattr(self._service, method)

        def call(request: Any, context: grpc.ServicerContext) -> Any:
            self.records.append(CallRecord())
            current_record.set(self.records[-1])
            try:
                return handle(request, context)
            except Exception as error:
                self.errors.append(error)
                raise

        return call


@pytest.fixture(scope="module")
def loaded() -> LoadedModel:
    return load("boundary-39")


@pytest.fixture
def engine(loaded: LoadedModel) -> Iterator[Engine]:
    engine = Engine(loaded.model, loaded.tokenizer, Limits(cache_bytes=1 << 20), ComputeTeam(1))
    yield engine
    engine.stop()


@pytest.fixture
def recorded(engine: Engine, loaded: LoadedModel) -> Recorded:
    return Recorded(DecoderService(engine, loaded, ModelCard(loaded, engine.limits)))


@pytest.fixture
def server(recorded: Recorded) -> Any:
    return grpc_testing.server_from_dictionary({SERVICE: recorded}, grpc_testing.strict_real_time())


def unary(server: Any, method: str, request: Any) -> Any:
    call = server.invoke_unary_unary(SERVICE.methods_by_name[method], (), request, 60.0)
    answer, _, code, details = call.termination()
    assert code is grpc.StatusCode.OK, details
    return answer


def stream(server: Any, method: str, request: Any) -> list[Any]:
    call = server.invoke_unary_stream(SERVICE.methods_by_name[method], (), request, 60.0)
    answers = [call.take_response()]
    while answers[-1].WhichOneof("event") != "finished":
        answers.append(call.take_response())
    _, code, details = call.termination()
    assert code is grpc.StatusCode.OK, details
    return answers


def ids(*tokens: int) -> pb.TokenIds:
    return pb.TokenIds(ids=tokens)


def test_get_model(server: Any, loaded: LoadedModel) -> None:
    card = unary(server, "GetModel", pb.GetModelRequest())
    assert card.name == "boundary-39"
    assert (card.parameter_count, len(card.parameters), card.arithmetic_version) == (1372, 20, 1)
    assert card.parameters_digest == loaded.model.parameters.digest()
    assert card.parameter_bytes == loaded.model.parameters.nbytes
    assert card.configuration.vocabulary_size == 258
    assert not card.configuration.HasField("context_window")
    assert card.parameters[0].name == "token_embedding.weight"
    assert list(card.parameters[0].shape) == [258, 4]
    assert card.limits.cache_bytes == 1 << 20
    assert list(card.end_token_ids) == [1]


def test_prefill_and_decode(server: Any, recorded: Recorded, loaded: LoadedModel) -> None:
    z = full_forward(loaded.model, NoGrad(ComputeTeam(1)), [0, 99, 100])
    request = pb.PrefillRequest(token_ids=ids(0, 99), logits_scope=pb.LOGITS_SCOPE_ALL, top_entries=2)
    first = unary(server, "Prefill", request)
    assert (first.position, list(first.token_ids)) == (2, [0, 99])
    assert (first.logits.first_position, first.logits.rows, first.logits.vocabulary_size) == (0, 2, 258)
    assert first.logits.values == z[:2].astype("<f8").tobytes()
    table = log_probabilities(NoGrad(ComputeTeam(1)), z)
    assert [entries.position for entries in first.top_entries] == [0, 1]
    for row, entries in enumerate(first.top_entries):
        assert [(e.token_id, e.log_probability) for e in entries.entries] == list(table.top(row, 2))
    more = unary(server, "Decode", pb.DecodeRequest(session_id=first.session_id, token_ids=ids(100)))
    assert more.position == 3
    assert (more.logits.first_position, more.logits.rows) == (2, 1)  # the default is the last row
    assert more.logits.values == z[2:].astype("<f8").tobytes()
    assert (more.work.decode_tokens, more.work.cache_appends) == (1, 2)
    assert (more.total_work.cache_appends, more.total_work.attention_score_values) == (6, 12)
    record = recorded.records[-1]
    assert (record.session, record.tokens) == (first.session_id, 1)
    state = unary(server, "GetSession", pb.GetSessionRequest(session_id=first.session_id))
    assert list(state.token_ids) == [0, 99, 100]
    closed = unary(server, "CloseSession", pb.CloseSessionRequest(session_id=first.session_id))
    assert (closed.position, closed.total_work) == (3, more.total_work)


def test_text_is_a_prompt_and_goes_on_as_plain_text(server: Any) -> None:
    first = unary(server, "Prefill", pb.PrefillRequest(text="a", logits_scope=pb.LOGITS_SCOPE_NONE))
    assert list(first.token_ids) == [0, 99]
    assert not first.HasField("logits")
    more = unary(server, "Decode", pb.DecodeRequest(session_id=first.session_id, text="b"))
    assert list(more.token_ids) == [100]


def test_score(server: Any) -> None:
    request = pb.ScoreRequest(
        sequences=[pb.ScoreSequence(token_ids=ids(0, 99, 100), targets=ids(99, 100, 1))]
    )
    (score,) = unary(server, "Score", request).scores
    assert np.float64(score.mean_nll).tobytes()[::-1].hex() == "4016ac70bf03b620"
    assert [token.target_id for token in score.tokens] == [99, 100, 1]
    (document,) = unary(server, "Score", pb.ScoreRequest(sequences=[pb.ScoreSequence(text="ab")])).scores
    assert list(document.token_ids) == [0, 99, 100, 1]
    assert document.mean_nll == score.mean_nll


def test_generate(server: Any) -> None:
    request = pb.GenerateRequest(
        token_ids=ids(0, 99), max_new_tokens=3, sampling=pb.SamplingParameters(seed=5), ignore_end_tokens=True
    )
    events = stream(server, "Generate", request)
    assert [event.WhichOneof("event") for event in events] == [
        "started",
        "token",
        "token",
        "token",
        "finished",
    ]
    assert events[0].started.seed == 5
    assert events[-1].finished.reason == pb.FINISH_REASON_LENGTH
    tokens = [event.token.token_id for event in events[1:-1]]
    again = stream(server, "Generate", request)
    assert [event.token.token_id for event in again[1:-1]] == tokens
    resumed = stream(
        server, "Generate", pb.GenerateRequest(session_id=events[0].started.session_id, resume_position=3)
    )
    assert [event.token.token_id for event in resumed[1:-1]] == tokens[1:]


def test_tokenize_and_detokenize(server: Any) -> None:
    assert list(unary(server, "Tokenize", pb.TokenizeRequest(text="ab")).token_ids) == [0, 99, 100]
    whole = unary(server, "Tokenize", pb.TokenizeRequest(text="ab", whole_document=True))
    assert list(whole.token_ids) == [0, 99, 100, 1]
    text = unary(server, "Detokenize", pb.DetokenizeRequest(token_ids=ids(0, 99, 100, 1), skip_control=True))
    assert text.text == "ab"


@pytest.mark.parametrize(
    ("method", "request_", "reason"),
    [
        ("Prefill", pb.PrefillRequest(token_ids=ids()), "EMPTY_PROMPT"),
        ("Prefill", pb.PrefillRequest(), "EMPTY_PROMPT"),
        ("Prefill", pb.PrefillRequest(token_ids=ids(258)), "TOKEN_OUT_OF_RANGE"),
        ("Prefill", pb.PrefillRequest(token_ids=ids(*[1] * 9)), "CONTEXT_FULL"),
        ("Prefill", pb.PrefillRequest(token_ids=ids(1), top_entries=101), "INVALID_ARGUMENT_VALUE"),
        ("Prefill", pb.PrefillRequest(chat=pb.Chat()), "INVALID_ARGUMENT_VALUE"),
        ("Decode", pb.DecodeRequest(session_id="x", token_ids=ids(1)), "SESSION_UNKNOWN"),
        ("GetSession", pb.GetSessionRequest(session_id="x"), "SESSION_UNKNOWN"),
        ("CloseSession", pb.CloseSessionRequest(session_id="x"), "SESSION_UNKNOWN"),
        ("Score", pb.ScoreRequest(), "INVALID_ARGUMENT_VALUE"),
        ("Tokenize", pb.TokenizeRequest(), "EMPTY_PROMPT"),
        ("Detokenize", pb.DetokenizeRequest(token_ids=ids(300)), "TOKEN_OUT_OF_RANGE"),
    ],
)
def test_refusals_reach_the_interceptor(
    server: Any, recorded: Recorded, method: str, request_: Any, reason: str
) -> None:
    call = server.invoke_unary_unary(SERVICE.methods_by_name[method], (), request_, 60.0)
    assert call.termination()[2] is not grpc.StatusCode.OK
    assert [getattr(error, "reason", error) for error in recorded.errors] == [reason]


def test_a_call_that_is_cancelled_while_it_generates_goes_no_further(server: Any, engine: Engine) -> None:
    session = unary(server, "Prefill", pb.PrefillRequest(token_ids=ids(0))).session_id
    request = pb.GenerateRequest(session_id=session, ignore_end_tokens=True, max_new_tokens=7)
    call = server.invoke_unary_stream(SERVICE.methods_by_name["Generate"], (), request, 60.0)
    assert call.take_response().HasField("started")
    call.cancel()
    assert engine.drain(60)
