"""Every model with known answers, over the wire, by every route to a position."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from wire.calls import close, decode, failure, prefill, rows, score_rows, session
from wire.models import KNOWN_ANSWERS
from wire.serving import Serving
from zeroulp.client import bits_of
from zeroulp.model.kernels.cache_rows import BLOCK
from zeroulp.v1 import decoder_pb2 as pb


@pytest.fixture
def answers(known: Serving) -> dict[str, Any]:
    """What is known of the model that is served; no session is open whose rows could be reused."""
    known.close_sessions()
    return KNOWN_ANSWERS[known.loaded.name]


def _digests(logits: list[bytes]) -> list[str]:
    return [hashlib.sha256(row).hexdigest() for row in logits]


def _expected(answers: dict[str, Any]) -> list[str]:
    digests: list[str] = answers["logits_sha256_le_f64_per_position"]
    assert len(digests) == len(answers["token_ids"])
    return digests


def test_score(known: Serving, answers: dict[str, Any]) -> None:
    assert _digests(score_rows(known.stub, answers["token_ids"])) == _expected(answers)
    request = pb.ScoreRequest(
        sequences=[pb.ScoreSequence(token_ids=pb.TokenIds(ids=answers["token_ids"]))],
    )
    assert bits_of(known.stub.Score(request).scores[0].mean_nll) == answers["mean_nll_next_token_bits"]


def test_one_prefill(known: Serving, answers: dict[str, Any]) -> None:
    opened = prefill(known.stub, answers["token_ids"], pb.LOGITS_SCOPE_ALL)
    assert opened.logits.first_position == 0
    assert _digests(rows(opened.logits)) == _expected(answers)
    _check_work(opened.total_work, opened.work, answers, prefilled=len(answers["token_ids"]))


def test_single_token_decodes(known: Serving, answers: dict[str, Any]) -> None:
    first, *rest = answers["token_ids"]
    opened = prefill(known.stub, [first])
    got = rows(opened.logits)
    total = opened.total_work
    for position, token in enumerate(rest, 1):
        decoded = decode(known.stub, opened.session_id, [token])
        assert (decoded.position, decoded.logits.first_position) == (position + 1, position)
        got += rows(decoded.logits)
        total = decoded.total_work
    assert _digests(got) == _expected(answers)
    _check_work(total, None, answers, prefilled=1)


@pytest.mark.parametrize("beside", [False, True])
def test_every_two_way_split(known: Serving, answers: dict[str, Any], beside: bool) -> None:
    """Alone, and beside a session whose whole blocks the first part begins with."""
    tokens = answers["token_ids"]
    if beside:
        prefill(known.stub, tokens)
    for cut in range(1, len(tokens)):
        opened = prefill(known.stub, tokens[:cut], pb.LOGITS_SCOPE_ALL)
        decoded = decode(known.stub, opened.session_id, tokens[cut:], pb.LOGITS_SCOPE_ALL)
        assert decoded.logits.first_position == cut
        assert _digests(rows(opened.logits) + rows(decoded.logits)) == _expected(answers)
        reused = (cut - 1) // BLOCK * BLOCK if beside else 0
        _check_work(decoded.total_work, None, answers, prefilled=cut, reused=reused)
        assert (opened.work, opened.work.reused_tokens) == (opened.total_work, reused)
        close(known.stub, opened.session_id)


def test_failed_calls_add_no_work(known: Serving, answers: dict[str, Any]) -> None:
    tokens = answers["token_ids"]
    opened = prefill(known.stub, tokens[:3])
    V = known.loaded.model.configuration.vocabulary_size
    before = session(known.stub, opened.session_id)
    for bad in ([tokens[3 % len(tokens)], V], [0] * 100):
        failure(lambda bad=bad: decode(known.stub, opened.session_id, bad))  # type: ignore[misc]
        assert session(known.stub, opened.session_id) == before
    if len(tokens) > 3:
        decode(known.stub, opened.session_id, tokens[3:])
    _check_work(session(known.stub, opened.session_id).total_work, None, answers, prefilled=3)


def _check_work(
    total: pb.Work, own: pb.Work | None, answers: dict[str, Any], *, prefilled: int, reused: int = 0
) -> None:
    """Compare with the file's counts and with the closed forms, less what the reused tokens explain."""
    config, T = answers["config"], len(answers["token_ids"])
    window = config["context_window"] or T
    visible = sum(min(t + 1, window) for t in range(reused, T))
    saved = sum(min(t + 1, window) for t in range(reused))
    expected = pb.Work(
        token_forwards=T - reused,
        prefill_tokens=prefilled - reused,
        decode_tokens=T - prefilled,
        cache_appends=(T - reused) * config["layers"],
        qkv_projection_rows=3 * (T - reused) * config["layers"],
        attention_score_values=visible * config["heads"] * config["layers"],
        reused_tokens=reused,
    )
    assert total == expected
    heads, layers = config["heads"], config["layers"]
    assert total.cache_appends + reused * layers == answers["work"]["cache_appends"]
    saved_values = saved * heads * layers
    assert total.attention_score_values + saved_values == answers["work"]["attention_score_values"]
    assert own is None or own == expected
