"""Packed documents are scored as they are alone, in every bit, whatever shares their steps."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate, pairwise

import grpc
import numpy as np
import pytest

from wire.calls import failure, ids, rows
from wire.models import known_model
from wire.serving import Serving, serving
from zeroulp.client import Client, ScoreSequence
from zeroulp.server.engine.limits import Limits
from zeroulp.v1 import decoder_pb2 as pb

NAMES = ("grouped-query-7", "grouped-query-7-window-8")
LENGTHS = (7, 1, 20, 3, 9)


@pytest.fixture(scope="module", params=NAMES)
def served(request: pytest.FixtureRequest) -> Iterator[Serving]:
    """Steps of a few rows, so that they cut documents anywhere."""
    limits = Limits(cache_bytes=10**6, step_rows=48, shared_step_rows=3)
    with serving(known_model(request.param), limits) as one:
        yield one


def tokens(seed: int, count: int, served: Serving) -> list[int]:
    vocabulary_size = served.loaded.model.configuration.vocabulary_size
    drawn: list[int] = np.random.default_rng(seed).integers(0, vocabulary_size, count).tolist()
    return drawn


def packed(seed: int, served: Serving, *lengths: int, **fields: object) -> pb.ScoreSequence:
    given = tokens(seed, sum(lengths), served)
    return pb.ScoreSequence(token_ids=ids(*given), document_lengths=lengths, **fields)  # type: ignore[arg-type]


def documents(sequence: pb.ScoreSequence) -> list[list[int]]:
    ends = accumulate(sequence.document_lengths, initial=0)
    return [list(sequence.token_ids.ids[start:end]) for start, end in pairwise(ends)]


def score(served: Serving, *sequences: pb.ScoreSequence, **fields: object) -> pb.ScoreResponse:
    request = pb.ScoreRequest(sequences=sequences, **fields)  # type: ignore[arg-type]
    return served.stub.Score(request)


def alone(served: Serving, document: list[int]) -> pb.SequenceScore:
    sequence = pb.ScoreSequence(token_ids=ids(*document))
    return score(served, sequence, logits_scope=pb.LOGITS_SCOPE_ALL).scores[0]


def test_documents_have_their_own_bits(served: Serving) -> None:
    sequence = packed(1, served, *LENGTHS)
    got = score(served, sequence, logits_scope=pb.LOGITS_SCOPE_ALL, top_entries=2).scores[0]
    each = [alone(served, document) for document in documents(sequence)]
    assert rows(got.logits) == [row for one in each for row in rows(one.logits)]
    assert [row for document in documents(sequence) for row in served.full_rows(document)] == rows(got.logits)
    assert list(got.tokens) == [token for one in each for token in one.tokens]
    assert [token.target_id for token in got.tokens] == [t for text in documents(sequence) for t in text[1:]]
    assert [top.position for top in got.top_entries] == list(range(sum(LENGTHS)))
    total = 0.0
    for token in got.tokens:
        total += token.log_probability
    assert got.sum_log_probability == total
    assert served.footprint[0] == 0


def test_work_counts_what_is_seen(served: Serving) -> None:
    sequence = packed(2, served, *LENGTHS)
    answer = score(served, sequence, sequence)
    each = [alone(served, document).work for document in documents(sequence)]
    for name in ("token_forwards", "cache_appends", "qkv_projection_rows", "attention_score_values"):
        want = sum(getattr(work, name) for work in each)
        assert getattr(answer.scores[0].work, name) == want
        assert getattr(answer.work, name) == 2 * want
    c = served.loaded.model.configuration
    visible = sum(min(t + 1, c.context_window or t + 1) for n in LENGTHS for t in range(n))
    assert answer.scores[0].work.attention_score_values == visible * c.heads * c.layers


def test_targets_and_masks_of_packed_documents(served: Serving) -> None:
    plain = packed(3, served, 3, 2)
    mask = [True, False, True]
    masked = packed(3, served, 3, 2, target_mask=mask)
    told = score(served, masked).scores[0]
    assert [token.counted for token in told.tokens] == mask
    explicit = packed(3, served, 3, 2, targets=ids(1, 2, 3, 4, 5))
    given = score(served, explicit).scores[0]
    assert [token.target_id for token in given.tokens] == [1, 2, 3, 4, 5]
    for document, start in zip(documents(plain), (0, 3), strict=True):
        end = start + len(document)
        sequence = pb.ScoreSequence(token_ids=ids(*document), targets=ids(*range(start + 1, end + 1)))
        assert list(score(served, sequence).scores[0].tokens) == list(given.tokens[start:end])


def test_a_document_of_one_token_predicts_nothing(served: Serving) -> None:
    told = score(served, packed(4, served, 1, 1, 1), logits_scope=pb.LOGITS_SCOPE_LAST).scores[0]
    assert (len(told.tokens), told.HasField("mean_nll")) == (0, False)
    assert (told.logits.first_position, told.logits.rows) == (2, 1)


@pytest.mark.parametrize("scope", [pb.LOGITS_SCOPE_NONE, pb.LOGITS_SCOPE_LAST, pb.LOGITS_SCOPE_ALL])
def test_sequences_that_share_steps_are_those_alone(served: Serving, scope: pb.LogitsScope.ValueType) -> None:
    lengths = [(5,), (60,), (1,), (2, 3), (47,), (1,), (9, 30), (64,), (4,)]
    sequences = [packed(seed, served, *each) for seed, each in enumerate(lengths)]
    answer = score(served, *sequences, logits_scope=scope, top_entries=3)
    for sequence, got in zip(sequences, answer.scores, strict=True):
        (want,) = score(served, sequence, logits_scope=scope, top_entries=3).scores
        assert got == want
    assert served.footprint == (0, served.hall.pool.capacity)


def test_packed_documents_beside_another_call(served: Serving) -> None:
    """Two calls share steps of three rows, which cut documents in other places."""
    sequence, other = packed(5, served, *LENGTHS), packed(6, served, 30, 10)
    want = score(served, sequence), score(served, other)
    with served.paused():
        calls = [served.stub.Score.future(pb.ScoreRequest(sequences=[each])) for each in (sequence, other)]
        served.wait_for_calls(3)
    assert tuple(call.result() for call in calls) == want


REFUSED = [
    ((2, 0, 1), "document_lengths[1]", "sequences[1].document_lengths[1] is 0; a document has at least 1"),
    ((2, 2), "document_lengths", "sequences[1].document_lengths adds up to 4; the sequence has 3 tokens"),
    ((2,), "document_lengths", "adds up to 2; the sequence has 3 tokens"),
    ((2**32 - 1,), "document_lengths", "adds up to 4294967295; the sequence has 3 tokens"),
]


@pytest.mark.parametrize(("lengths", "field", "message"), REFUSED)
def test_lengths_that_do_not_fit(served: Serving, lengths: tuple[int, ...], field: str, message: str) -> None:
    sound = packed(7, served, 2)
    wrong = pb.ScoreSequence(token_ids=ids(1, 2, 3), document_lengths=lengths)
    before = served.footprint
    told = failure(lambda: score(served, sound, wrong))
    assert (told.code, told.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_ARGUMENT_VALUE")
    assert told.fields == [f"sequences[1].{field}"]
    assert message in told.message
    assert served.footprint == before


def test_a_mask_for_every_token_of_packed_documents(served: Serving) -> None:
    told = failure(lambda: score(served, packed(8, served, 2, 3, target_mask=[True] * 5)))
    assert told.fields == ["sequences[0].target_mask"]
    assert "has 5 mask entries for 3 targets" in told.message


def test_packed_documents_through_the_client(served: Serving) -> None:
    sequence = packed(9, served, 4, 6)
    with Client(served.target) as client:
        given = list(sequence.token_ids.ids)
        whole, one, two = client.score(
            ScoreSequence(given, document_lengths=(4, 6)), given[:4], given[4:]
        ).sequences
    assert whole.tokens == one.tokens + two.tokens
    assert whole.work.attention_score_values == sum(part.work.attention_score_values for part in (one, two))
