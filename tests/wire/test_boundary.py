"""The reference fixture over the wire."""

from __future__ import annotations

from wire.calls import decode, ids, prefill, rows, score_rows
from wire.daemons import Daemon
from wire.serving import Serving
from zeroulp.client import bits_of
from zeroulp.v1 import decoder_pb2 as pb

LOSS_BITS = "4016ac70bf03b620"


def _loss_bits(serving: Serving | Daemon) -> str:
    sequence = pb.ScoreSequence(token_ids=ids(0, 99, 100), targets=ids(99, 100, 1))
    score = serving.stub.Score(pb.ScoreRequest(sequences=[sequence])).scores[0]
    assert [token.target_id for token in score.tokens] == [99, 100, 1]
    return bits_of(score.mean_nll)


def test_the_loss_has_the_known_bits(boundary: Serving, boundary_daemon: Daemon) -> None:
    assert _loss_bits(boundary) == LOSS_BITS
    assert _loss_bits(boundary_daemon) == LOSS_BITS


def test_the_mean_is_the_ascending_sum_of_the_tokens(boundary: Serving) -> None:
    sequence = pb.ScoreSequence(token_ids=ids(0, 99, 100), targets=ids(99, 100, 1))
    score = boundary.stub.Score(pb.ScoreRequest(sequences=[sequence])).scores[0]
    total = nll = 0.0
    for token in score.tokens:
        total += token.log_probability
        nll += -token.log_probability
    assert bits_of(score.sum_log_probability) == bits_of(total)
    assert bits_of(score.mean_nll) == bits_of(nll / 3)


def test_prefill_and_decode_equal_score_and_full_forward(boundary: Serving) -> None:
    opened = prefill(boundary.stub, [0, 99])
    assert (opened.position, list(opened.token_ids), opened.logits.first_position) == (2, [0, 99], 1)
    decoded = decode(boundary.stub, opened.session_id, [100])
    assert decoded.position == 3
    assert (decoded.total_work.cache_appends, decoded.total_work.attention_score_values) == (6, 12)
    assert (decoded.logits.first_position, decoded.logits.rows) == (2, 1)
    assert decoded.logits.vocabulary_size == 258
    (newest,) = rows(decoded.logits)
    assert newest == score_rows(boundary.stub, [0, 99, 100])[-1]
    assert newest == boundary.full_rows([0, 99, 100])[-1]


def test_the_daemon_gives_the_same_bits_as_this_process(boundary: Serving, boundary_daemon: Daemon) -> None:
    opened = prefill(boundary_daemon.stub, [0, 99])
    decoded = decode(boundary_daemon.stub, opened.session_id, [100])
    assert rows(decoded.logits)[-1] == boundary.full_rows([0, 99, 100])[-1]
    assert decoded.total_work.cache_appends == 6


def test_text_becomes_the_same_ids_everywhere(boundary: Serving) -> None:
    stub = boundary.stub
    assert list(stub.Tokenize(pb.TokenizeRequest(text="ab")).token_ids) == [0, 99, 100]
    whole = stub.Tokenize(pb.TokenizeRequest(text="ab", whole_document=True))
    assert list(whole.token_ids) == [0, 99, 100, 1]
    assert list(stub.Prefill(pb.PrefillRequest(text="ab")).token_ids) == [0, 99, 100]
    scored = stub.Score(pb.ScoreRequest(sequences=[pb.ScoreSequence(text="ab")])).scores[0]
    assert list(scored.token_ids) == [0, 99, 100, 1]
    assert bits_of(scored.mean_nll) == LOSS_BITS
    opened = prefill(stub, [0])
    appended = stub.Decode(pb.DecodeRequest(session_id=opened.session_id, text="ab"))
    assert list(appended.token_ids) == [99, 100]
    assert rows(appended.logits)[-1] == boundary.full_rows([0, 99, 100])[-1]


def test_get_model_tells_what_is_served(boundary: Serving) -> None:
    model = boundary.stub.GetModel(pb.GetModelRequest())
    assert (model.name, model.parameter_count, len(model.parameters)) == ("boundary-39", 1372, 20)
    assert model.parameters[0].name == "token_embedding.weight"
    assert list(model.parameters[0].shape) == [258, 4]
    assert not model.configuration.HasField("context_window")
    assert model.parameters_digest == boundary.loaded.model.parameters.digest()
    assert (model.arithmetic_version, model.tokenizer_kind) == (1, "document-bpe")
    assert list(model.end_token_ids) == [1]
    assert model.limits.max_positions == 8
    assert model.limits.generate_ahead_tokens == boundary.engine.limits.generate_ahead
