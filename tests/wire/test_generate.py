"""Generations: their tokens, logits, ends, and what they commit."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from wire.calls import GREEDY, Stream, close, decode, failure, generate, ids, prefill, rows, session
from wire.models import known_model
from wire.serving import Serving, serving
from zeroulp.client import bits_of
from zeroulp.v1 import decoder_pb2 as pb

PROMPT = [5, 6, 7]
NEW = 30


def _greedy(**fields: object) -> pb.GenerateRequest:
    request = pb.GenerateRequest(sampling=GREEDY, **fields)  # type: ignore[arg-type]
    if not request.HasField("session_id"):
        request.token_ids.CopyFrom(ids(*PROMPT))
    return request


def _argmax(row: bytes) -> int:
    return int(np.argmax(np.frombuffer(row)))


def test_greedy_tokens_are_the_argmax_of_decode(grouped: Serving) -> None:
    stream = generate(grouped.stub, _greedy(max_new_tokens=NEW))
    assert len(stream.tokens) == NEW
    opened = prefill(grouped.stub, PROMPT)
    row = rows(opened.logits)[-1]
    for token in stream.tokens:
        assert token.token_id == _argmax(row)
        row = rows(decode(grouped.stub, opened.session_id, [token.token_id]).logits)[-1]


def test_logits_are_the_rows_of_the_full_forward(grouped: Serving) -> None:
    request = _greedy(
        max_new_tokens=NEW, logits_scope=pb.LOGITS_SCOPE_LAST, log_probabilities=True, top_entries=3
    )
    stream = generate(grouped.stub, request)
    full = grouped.full_rows(PROMPT + stream.ids)
    scored = grouped.stub.Score(
        pb.ScoreRequest(sequences=[pb.ScoreSequence(token_ids=ids(*PROMPT, *stream.ids))])
    ).scores[0]
    for token in stream.tokens:
        assert token.logits.first_position == token.position - 1
        (row,) = rows(token.logits)
        assert row == full[token.position - 1]
        assert bits_of(token.log_probability) == bits_of(scored.tokens[token.position - 1].log_probability)
        assert scored.tokens[token.position - 1].greedy
        assert (token.top_entries[0].token_id, token.top_entries[0].log_probability) == (
            token.token_id,
            token.log_probability,
        )
        order = sorted(range(300), key=lambda index: (-np.frombuffer(row)[index], index))[:3]
        assert [entry.token_id for entry in token.top_entries] == order


def test_nothing_is_told_that_was_not_asked_for(grouped: Serving) -> None:
    for token in generate(grouped.stub, _greedy(max_new_tokens=3)).tokens:
        assert not token.HasField("logits")
        assert not token.HasField("log_probability")
        assert not token.top_entries


def test_the_position_is_the_prompt_and_what_was_emitted(grouped: Serving) -> None:
    stream = generate(grouped.stub, _greedy(max_new_tokens=NEW))
    assert (list(stream.started.token_ids), stream.started.position) == (PROMPT, 3)
    assert [token.position for token in stream.tokens] == list(range(3, 3 + NEW))
    assert (stream.finished.position, stream.finished.generated_tokens) == (3 + NEW, NEW)
    assert stream.reason == "LENGTH"
    state = session(grouped.stub, stream.started.session_id)
    assert list(state.token_ids) == PROMPT + stream.ids
    assert state.total_work == stream.finished.total_work == stream.finished.work
    assert (state.total_work.prefill_tokens, state.total_work.decode_tokens) == (3, NEW)
    assert state.total_work.cache_appends == 3 * (3 + NEW)


@pytest.mark.parametrize("on_session", [True, False])
def test_zero_new_tokens_commit_the_input_only(grouped: Serving, on_session: bool) -> None:
    request = _greedy(max_new_tokens=0)
    if on_session:
        request.session_id = prefill(grouped.stub, [1]).session_id
    stream = generate(grouped.stub, request)
    assert (stream.tokens, stream.reason) == ([], "LENGTH")
    assert stream.finished.position == 3 + on_session
    decoded = decode(grouped.stub, stream.started.session_id, [9])
    assert rows(decoded.logits)[0] == grouped.full_rows([1] * on_session + [*PROMPT, 9])[-1]


def test_zero_new_tokens_without_input_change_nothing(grouped: Serving) -> None:
    opened = prefill(grouped.stub, PROMPT).session_id
    before = session(grouped.stub, opened)
    stream = generate(grouped.stub, _greedy(session_id=opened, max_new_tokens=0))
    assert (stream.tokens, stream.finished.position) == ([], 3)
    assert stream.finished.work == pb.Work()
    assert session(grouped.stub, opened) == before


def test_a_session_goes_on_without_and_with_input(grouped: Serving) -> None:
    whole = generate(grouped.stub, _greedy(max_new_tokens=20)).ids
    opened = prefill(grouped.stub, PROMPT).session_id
    first = generate(grouped.stub, _greedy(session_id=opened, max_new_tokens=8))
    second = generate(grouped.stub, _greedy(session_id=opened, max_new_tokens=12))
    assert first.ids + second.ids == whole
    assert (list(second.started.token_ids), second.started.position) == ([], 11)
    request = _greedy(session_id=opened, max_new_tokens=2, logits_scope=pb.LOGITS_SCOPE_LAST)
    request.token_ids.CopyFrom(ids(8, 9))
    third = generate(grouped.stub, request)
    assert (list(third.started.token_ids), third.started.position) == ([8, 9], 25)
    full = grouped.full_rows([*PROMPT, *whole, 8, 9, *third.ids])
    assert [rows(token.logits)[0] for token in third.tokens] == full[24:26]


def test_without_a_maximum_it_ends_when_the_context_is_full(grouped: Serving) -> None:
    stream = generate(grouped.stub, _greedy())
    assert (stream.reason, stream.finished.position, len(stream.tokens)) == ("CONTEXT_FULL", 64, 61)
    again = generate(grouped.stub, _greedy(session_id=stream.started.session_id))
    assert (again.reason, again.tokens, again.finished.position) == ("CONTEXT_FULL", [], 64)
    exact = generate(grouped.stub, _greedy(max_new_tokens=61))
    assert (exact.reason, exact.ids) == ("LENGTH", stream.ids)
    assert failure(lambda: generate(grouped.stub, _greedy(max_new_tokens=62))).reason == "CONTEXT_FULL"


def test_an_over_long_generation_is_refused_before_anything(grouped: Serving) -> None:
    footprint = grouped.footprint
    opened = prefill(grouped.stub, PROMPT).session_id
    before = session(grouped.stub, opened)
    request = _greedy(session_id=opened, max_new_tokens=60)
    request.token_ids.CopyFrom(ids(1, 2))
    told = failure(lambda: generate(grouped.stub, request))
    assert told.metadata == {"requested_positions": "65", "max_positions": "64"}
    assert session(grouped.stub, opened) == before
    close(grouped.stub, opened)
    assert grouped.footprint == footprint


def test_close_session_frees_it_at_every_end(grouped: Serving) -> None:
    footprint = grouped.footprint
    for request in (_greedy(max_new_tokens=3), _greedy(), _greedy(max_new_tokens=0)):
        request.close_session = True
        opened = generate(grouped.stub, request).started.session_id
        grouped.wait_until_idle()
        assert failure(lambda opened=opened: session(grouped.stub, opened)).reason == "SESSION_UNKNOWN"  # type: ignore[misc]
        assert grouped.footprint == footprint
    request = _greedy(close_session=True)
    request.max_new_tokens = 100
    assert failure(lambda: generate(grouped.stub, request)).reason == "CONTEXT_FULL"
    assert grouped.footprint == footprint


SAMPLED = pb.SamplingParameters(temperature=0.9, top_k=40, top_p=0.95, repetition_penalty=1.1, seed=20)


def _sampled(seed: int | None) -> pb.GenerateRequest:
    sampling = pb.SamplingParameters()
    sampling.CopyFrom(SAMPLED)
    sampling.ClearField("seed")
    if seed is not None:
        sampling.seed = seed
    return pb.GenerateRequest(
        token_ids=ids(*PROMPT), max_new_tokens=NEW, sampling=sampling, close_session=True
    )


def test_a_seed_gives_the_same_tokens_alone_beside_neighbours_and_after_a_restart(grouped: Serving) -> None:
    alone = generate(grouped.stub, _sampled(20))
    assert alone.started.seed == 20
    start = threading.Barrier(9)

    def run(seed: int | None) -> Stream:
        start.wait()
        return generate(grouped.stub, _sampled(seed))

    with ThreadPoolExecutor(9) as pool:
        beside, *others = pool.map(run, [20, None, 1, None, 2, 20, None, 3, None])
    assert beside.ids == others[4].ids == alone.ids
    assert others[1].ids != alone.ids
    with serving(known_model("grouped-query-7")) as restarted:
        assert generate(restarted.stub, _sampled(20)).ids == alone.ids


def test_a_drawn_seed_is_told_and_gives_the_same_again(grouped: Serving) -> None:
    streams = [generate(grouped.stub, _sampled(None)) for _ in range(3)]
    assert len({stream.started.seed for stream in streams}) == 3
    for stream in streams:
        assert generate(grouped.stub, _sampled(stream.started.seed)).ids == stream.ids
    assert generate(grouped.stub, _sampled(0)).started.seed == 0
    assert generate(grouped.stub, _sampled(2**64 - 1)).started.seed == 2**64 - 1


def test_where_a_session_was_cut_changes_no_draw(grouped: Serving) -> None:
    sampling = pb.SamplingParameters(temperature=1.3, seed=5)
    whole = generate(
        grouped.stub, pb.GenerateRequest(token_ids=ids(*PROMPT), max_new_tokens=20, sampling=sampling)
    )
    opened = prefill(grouped.stub, PROMPT).session_id
    parts: list[int] = []
    for count in (1, 7, 12):
        request = pb.GenerateRequest(session_id=opened, max_new_tokens=count, sampling=sampling)
        parts += generate(grouped.stub, request).ids
    assert parts == whole.ids


def test_an_explicit_zero_is_greedy_and_an_absent_temperature_is_one(grouped: Serving) -> None:
    def tokens(sampling: pb.SamplingParameters | None) -> list[int]:
        request = pb.GenerateRequest(token_ids=ids(*PROMPT), max_new_tokens=NEW, sampling=sampling)
        return generate(grouped.stub, request).ids

    greedy = generate(grouped.stub, _greedy(max_new_tokens=NEW)).ids
    assert tokens(pb.SamplingParameters(temperature=0.0, seed=1)) == greedy
    assert tokens(pb.SamplingParameters(temperature=1e-9, seed=1)) == greedy
    plain = tokens(pb.SamplingParameters(seed=1))
    assert plain == tokens(pb.SamplingParameters(seed=1, temperature=1.0, top_k=0, top_p=1.0, min_p=0.0))
    assert plain != greedy
    assert tokens(None) != greedy


def test_eight_greedy_sessions_at_once_agree(grouped: Serving) -> None:
    with ThreadPoolExecutor(8) as pool:
        streams = list(pool.map(lambda _: generate(grouped.stub, _greedy(max_new_tokens=NEW)), range(8)))
    assert len({tuple(stream.ids) for stream in streams}) == 1
