"""SmolLM2-135M-Instruct through the daemon."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from wire.calls import GREEDY, Stream, decode, failure, generate, ids, prefill, rows, score_rows
from wire.daemons import Daemon
from zeroulp.client import bits_of
from zeroulp.v1 import decoder_pb2 as pb

pytestmark = pytest.mark.real_model

PROMPT = "The capital of France is"
NEW = 200


@pytest.fixture(scope="module")
def stream(real_daemon: Daemon) -> Stream:
    request = pb.GenerateRequest(
        text=PROMPT,
        max_new_tokens=NEW,
        sampling=GREEDY,
        ignore_end_tokens=True,
        logits_scope=pb.LOGITS_SCOPE_LAST,
        log_probabilities=True,
    )
    return generate(real_daemon.stub, request)


def test_the_greedy_continuation_is_paris(stream: Stream, real_daemon: Daemon) -> None:
    assert stream.text.startswith(" Paris")
    detokenized = real_daemon.stub.Detokenize(
        pb.DetokenizeRequest(token_ids=ids(*stream.ids), skip_control=True)
    )
    assert stream.text == detokenized.text


def test_every_row_is_the_full_forwards_in_every_bit(stream: Stream, real_daemon: Daemon) -> None:
    tokens = [*stream.started.token_ids, *stream.ids]
    request = pb.ScoreRequest(
        sequences=[pb.ScoreSequence(token_ids=ids(*tokens))], logits_scope=pb.LOGITS_SCOPE_ALL
    )
    score = real_daemon.stub.Score(request).scores[0]
    full = rows(score.logits)
    assert (len(stream.tokens), len(full)) == (NEW, len(tokens))
    for token in stream.tokens:
        before = token.position - 1
        assert rows(token.logits) == [full[before]]
        assert int(np.argmax(np.frombuffer(full[before]))) == token.token_id
        assert score.tokens[before].greedy
        assert bits_of(score.tokens[before].log_probability) == bits_of(token.log_probability)


def test_one_prefill_equals_decodes_one_by_one(stream: Stream, real_daemon: Daemon) -> None:
    tokens = [*stream.started.token_ids, *stream.ids][:24]
    whole = rows(prefill(real_daemon.stub, tokens, pb.LOGITS_SCOPE_ALL).logits)
    opened = prefill(real_daemon.stub, tokens[:1])
    got = rows(opened.logits)
    for token in tokens[1:]:
        got += rows(decode(real_daemon.stub, opened.session_id, [token]).logits)
    assert got == whole
    assert score_rows(real_daemon.stub, tokens) == whole


def test_hits_forks_and_cuts_have_the_same_bits(stream: Stream, real_daemon: Daemon) -> None:
    stub, tokens = real_daemon.stub, [*stream.started.token_ids, *stream.ids][:70]
    full = score_rows(stub, tokens)
    hit = prefill(stub, tokens[:66], pb.LOGITS_SCOPE_ALL)
    assert (hit.work.reused_tokens, hit.work.token_forwards) == (64, 2)
    assert rows(hit.logits) == full[:66]
    fork = stub.ForkSession(pb.ForkSessionRequest(session_id=hit.session_id)).session_id
    assert rows(decode(stub, fork, tokens[66:], pb.LOGITS_SCOPE_ALL).logits) == full[66:]
    wrong = [token + 1 for token in tokens[66:]]
    decode(stub, hit.session_id, wrong)
    stub.TruncateSession(pb.TruncateSessionRequest(session_id=hit.session_id, position=40))
    assert rows(decode(stub, hit.session_id, tokens[40:], pb.LOGITS_SCOPE_ALL).logits) == full[40:]


def test_token_ids_are_the_recorded_ones(real_daemon: Daemon) -> None:
    known = json.loads((Path(__file__).parents[1] / "data" / "smollm2-tokens.json").read_text())
    for text in known:
        answer = real_daemon.stub.Tokenize(pb.TokenizeRequest(text=text["text"]))
        assert list(answer.token_ids) == text["ids"]


def test_a_chat_is_the_templates_text(real_daemon: Daemon) -> None:
    chat = pb.Chat(
        messages=[
            pb.ChatMessage(role="system", content="Be brief."),
            pb.ChatMessage(role="user", content="Hi"),
        ],
        add_generation_prompt=True,
    )
    tokens = list(real_daemon.stub.Tokenize(pb.TokenizeRequest(chat=chat)).token_ids)
    text = real_daemon.stub.Detokenize(pb.DetokenizeRequest(token_ids=ids(*tokens))).text
    assert text == (
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    )
    assert [token for token in tokens if token < 17] == [1, 2, 1, 2, 1]
    opened = real_daemon.stub.Prefill(pb.PrefillRequest(chat=chat, logits_scope=pb.LOGITS_SCOPE_NONE))
    assert list(opened.token_ids) == tokens


def test_an_answer_beyond_the_message_limit_is_refused_at_once(real_daemon: Daemon) -> None:
    request = pb.PrefillRequest(token_ids=ids(*[1] * 700), logits_scope=pb.LOGITS_SCOPE_ALL)
    told = failure(lambda: real_daemon.stub.Prefill(request, timeout=5))
    assert (told.reason, told.retry_seconds) == ("MESSAGE_TOO_LARGE", None)
