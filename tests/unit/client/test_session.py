from __future__ import annotations

import grpc
import pytest
from google.rpc.error_details_pb2 import ErrorInfo

from unit.client.fake_arithmetic import END_TOKEN, row_after
from unit.client.fake_decoder import FakeDecoder, rich
from zeroulp.client import (
    ChatMessage,
    Client,
    Difference,
    LogitsScope,
    ScoreSequence,
    SessionUnknown,
    TokenLogProbability,
    TopEntries,
    Unavailable,
)
from zeroulp.v1 import decoder_pb2 as pb


def test_prefill_then_decode(decoder: FakeDecoder, client: Client) -> None:
    with client.prefill([1, 2]) as session:
        prefilled = session.prefilled
        assert (prefilled.position, prefilled.token_ids) == (2, (1, 2))
        assert prefilled.logits is not None
        assert bytes(prefilled.logits.row(0)) == row_after([1, 2])
        commit = session.decode([3], top_entries=1)
        assert (commit.position, commit.token_ids, commit.work.cache_appends) == (3, (3,), 2)
        assert commit.total_work.cache_appends == 6
        assert commit.logits is not None
        assert commit.logits.first_position == 2
        assert bytes(commit.logits.row(0)) == row_after([1, 2, 3])
        assert commit.top_entries == (TopEntries(2, (TokenLogProbability(1, -2.0),)),)
        assert session.decode("A", logits=LogitsScope.NONE).logits is None
        state = session.state()
        assert (state.token_ids, state.position, state.cache_bytes) == ((1, 2, 3, 65), 4, 256)
        assert state.session_id == session.session_id
    assert decoder.sessions == {}


def test_a_session_goes_on_and_is_resumed(decoder: FakeDecoder, client: Client) -> None:
    session = client.prefill("hey")
    first = session.generate(max_new_tokens=2)
    assert (first.prompt_ids, first.session_id) == ((), session.session_id)
    tokens = list(first)
    more = session.generate(" you", max_new_tokens=1)
    assert more.prompt_ids == tuple(b" you")
    more.text()
    assert not decoder.requests[-1].close_session  # type: ignore[attr-defined]
    resumed = session.resume(4)
    assert decoder.requests[-1] == pb.GenerateRequest(session_id=session.session_id, resume_position=4)
    assert next(resumed) == tokens[1]
    end = session.close()
    assert end.position == end.total_work.token_forwards


def test_a_fork_goes_its_own_way(decoder: FakeDecoder, client: Client) -> None:
    with client.prefill([1, 2]) as session, session.fork() as fork:
        assert fork.session_id != session.session_id
        assert fork.decode([3]).position == 3
        assert [s.state().token_ids for s in (session, fork)] == [(1, 2), (1, 2, 3)]
    assert decoder.sessions == {}


def test_a_session_is_cut(decoder: FakeDecoder, client: Client) -> None:
    session = client.prefill([1, 2, 3])
    cut = session.truncate(2)
    assert (cut.position, cut.total_work.token_forwards, cut.cache_bytes) == (2, 3, 64)
    assert decoder.sessions == {session.session_id: [1, 2]}
    assert decoder.requests[-1] == pb.TruncateSessionRequest(session_id=session.session_id, position=2)
    with pytest.raises(ValueError, match="-1"):
        session.truncate(-1)


def test_a_session_is_audited(client: Client) -> None:
    sound = client.prefill([1, 2]).audit()
    assert (sound.position, sound.compared_values, sound.difference) == (2, 7, None)
    assert sound.work.token_forwards == 2
    broken = client.prefill([1, END_TOKEN]).audit()
    assert broken.difference == Difference(0, "key", 1, 2, 1.0, 1.5, 9)


def test_a_session_that_is_gone_is_told_and_needs_no_closing(decoder: FakeDecoder, client: Client) -> None:
    with client.session("lost") as session, pytest.raises(SessionUnknown):
        session.state()
    with pytest.raises(SessionUnknown):
        client.session("lost").close()


def test_the_blocks_error_is_not_hidden_by_the_farewells(decoder: FakeDecoder, client: Client) -> None:
    draining = ErrorInfo(domain="zeroulp", reason="DRAINING")
    decoder.failures["CloseSession"] = rich(grpc.StatusCode.UNAVAILABLE, "stopping", draining)
    with pytest.raises(KeyError), client.prefill([1]):
        raise KeyError
    with pytest.raises(Unavailable), client.prefill([1]):
        pass


def test_scores_of_text_ids_and_targets(decoder: FakeDecoder, client: Client) -> None:
    scores = client.score("ab", [1, 2, 3], ScoreSequence([1], targets=[2], target_mask=[True]))
    assert [score.token_ids for score in scores.sequences] == [(97, 98), (1, 2, 3), (1,)]
    assert [[token.target_id for token in score.tokens] for score in scores.sequences] == [[98], [2, 3], [2]]
    second = scores.sequences[1]
    assert (second.sum_log_probability, second.mean_nll) == (-1.0, 0.5)
    assert [token.greedy for token in second.tokens] == [True, False]
    assert second.logits is not None
    assert second.logits.rows == 3
    assert client.score([7]).sequences[0].mean_nll is None
    request = decoder.requests[0]
    assert isinstance(request, pb.ScoreRequest)
    assert [sequence.HasField("targets") for sequence in request.sequences] == [False, False, True]


def test_text_and_ids(client: Client) -> None:
    assert client.tokenize("ab") == (97, 98)
    assert client.tokenize("ab", whole_document=True) == (97, 98, END_TOKEN)
    chat = [ChatMessage("user", "Hi")]
    assert bytes(client.tokenize(chat)) == b"<user>Hi\x03<assistant>"
    assert bytes(client.tokenize(chat, add_generation_prompt=False)) == b"<user>Hi\x03"
    assert client.detokenize([97, END_TOKEN]) == "a\x03"
    assert client.detokenize([97, END_TOKEN], skip_control=True) == "a"


def test_the_model_is_told(client: Client) -> None:
    model = client.model()
    assert (model.name, model.tokenizer_kind, model.end_token_ids) == ("fake", "bytes", (END_TOKEN,))
    assert model.parameters[0].shape == (128, 4)
    assert model.configuration.context_window is None
    assert model.limits.max_sessions == 7


def test_large_rows_pass(client: Client) -> None:
    # 5000 rows of 1 KiB: more than gRPC's own limit of 4 MiB.
    logits = client.score([1] * 5000, logits=LogitsScope.ALL).sequences[0].logits
    assert logits is not None
    assert len(logits.values) == 5000 * 1024
