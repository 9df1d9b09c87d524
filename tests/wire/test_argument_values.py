"""Field values that no call may carry."""

from __future__ import annotations

import math

import grpc
import pytest

from wire.calls import failure, generate, ids, prefill, session
from wire.models import seeded
from wire.serving import Serving, serving
from zeroulp.model.configuration import Configuration
from zeroulp.v1 import decoder_pb2 as pb

VALUE = "INVALID_ARGUMENT_VALUE"
INVALID = grpc.StatusCode.INVALID_ARGUMENT

SAMPLING = [
    *(("temperature", value) for value in (-1.0, -0.1, math.nan, math.inf, -math.inf)),
    *(("top_p", value) for value in (0.0, -0.5, 1.0000001, math.nan)),
    *(("min_p", value) for value in (-0.1, 1.1, math.nan)),
    *(("repetition_penalty", value) for value in (0.0, -1.0, math.nan, math.inf)),
    *(("presence_penalty", value) for value in (math.nan, math.inf, -math.inf)),
    *(("frequency_penalty", value) for value in (math.nan, math.inf)),
]


@pytest.mark.parametrize(("name", "value"), SAMPLING)
@pytest.mark.parametrize("on_session", [True, False])
def test_sampling_out_of_range(grouped: Serving, name: str, value: float, on_session: bool) -> None:
    opened = prefill(grouped.stub, [1, 2]).session_id
    before, footprint = session(grouped.stub, opened), grouped.footprint
    sampling = pb.SamplingParameters(**{name: value})  # type: ignore[arg-type]
    request = pb.GenerateRequest(token_ids=ids(1), max_new_tokens=1, sampling=sampling)
    if on_session:
        request.session_id = opened
    told = failure(lambda: generate(grouped.stub, request))
    assert (told.code, told.reason, told.fields) == (INVALID, VALUE, [f"sampling.{name}"])
    assert f"{name} is {value}" in told.message
    assert session(grouped.stub, opened) == before
    assert grouped.footprint == footprint


@pytest.mark.parametrize(
    "sampling",
    [
        pb.SamplingParameters(temperature=0.0, top_p=1.0, min_p=0.0, top_k=0),
        pb.SamplingParameters(temperature=1e-300),
        pb.SamplingParameters(temperature=1e300),
        pb.SamplingParameters(top_k=2**32 - 1),
        pb.SamplingParameters(top_p=5e-324, min_p=1.0),
        pb.SamplingParameters(repetition_penalty=1e-300),
        pb.SamplingParameters(repetition_penalty=1.7e308, presence_penalty=-1e307, frequency_penalty=1e306),
    ],
)
def test_the_ends_of_the_ranges_are_taken(grouped: Serving, sampling: pb.SamplingParameters) -> None:
    request = pb.GenerateRequest(
        token_ids=ids(1, 2), max_new_tokens=20, sampling=sampling, close_session=True, log_probabilities=True
    )
    assert len(generate(grouped.stub, request).ids) == 20


@pytest.mark.parametrize(
    "sampling",
    [
        pb.SamplingParameters(repetition_penalty=5e-324),
        pb.SamplingParameters(presence_penalty=1.7e308, frequency_penalty=1.7e308),
    ],
)
def test_penalties_that_leave_the_finite_numbers_are_told(
    grouped: Serving, sampling: pb.SamplingParameters
) -> None:
    opened = prefill(grouped.stub, [1, 2]).session_id
    request = pb.GenerateRequest(session_id=opened, max_new_tokens=20, sampling=sampling)
    told = failure(lambda: generate(grouped.stub, request))
    assert (told.code, told.reason) == (grpc.StatusCode.DATA_LOSS, "NON_FINITE")
    assert told.metadata == {"stage": "penalties"}
    grouped.check_blocks()


def test_a_scope_that_is_not_defined(grouped: Serving) -> None:
    opened = prefill(grouped.stub, [1, 2]).session_id
    before, footprint = session(grouped.stub, opened), grouped.footprint
    stub, scope = grouped.stub, 9
    sequences = [pb.ScoreSequence(token_ids=ids(1, 2))]
    for call in (
        lambda: stub.Prefill(pb.PrefillRequest(token_ids=ids(1), logits_scope=scope)),  # type: ignore[arg-type]
        lambda: stub.Decode(pb.DecodeRequest(session_id=opened, token_ids=ids(1), logits_scope=scope)),  # type: ignore[arg-type]
        lambda: stub.Score(pb.ScoreRequest(sequences=sequences, logits_scope=scope)),  # type: ignore[arg-type]
        lambda: generate(stub, pb.GenerateRequest(session_id=opened, logits_scope=scope)),  # type: ignore[arg-type]
        lambda: generate(stub, pb.GenerateRequest(session_id=opened, logits_scope=pb.LOGITS_SCOPE_ALL)),
    ):
        told = failure(call)
        assert (told.code, told.reason, told.fields) == (INVALID, VALUE, ["logits_scope"])
        assert session(stub, opened) == before
        assert grouped.footprint == footprint


def test_top_entries_beyond_the_limit(grouped: Serving) -> None:
    stub, limit = grouped.stub, grouped.engine.limits.max_top_entries
    opened = prefill(stub, [1, 2]).session_id
    before = session(stub, opened)
    sequences = [pb.ScoreSequence(token_ids=ids(1, 2))]
    for count in (limit + 1, 2**32 - 1):
        for call in (
            lambda count=count: stub.Prefill(pb.PrefillRequest(token_ids=ids(1), top_entries=count)),
            lambda count=count: stub.Decode(
                pb.DecodeRequest(session_id=opened, token_ids=ids(1), top_entries=count)
            ),
            lambda count=count: stub.Score(pb.ScoreRequest(sequences=sequences, top_entries=count)),
            lambda count=count: generate(stub, pb.GenerateRequest(session_id=opened, top_entries=count)),
        ):
            told = failure(call)
            assert (told.reason, told.fields) == (VALUE, ["top_entries"])
            assert str(limit) in told.message
    assert session(stub, opened) == before
    assert (
        len(stub.Prefill(pb.PrefillRequest(token_ids=ids(1), top_entries=limit)).top_entries[0].entries)
        == limit
    )


def test_top_entries_beside_and_instead_of_logits(boundary: Serving) -> None:
    request = pb.PrefillRequest(token_ids=ids(0, 99, 100), top_entries=2)
    for scope, positions, rows in (
        (pb.LOGITS_SCOPE_NONE, [2], 0),
        (pb.LOGITS_SCOPE_LAST, [2], 1),
        (pb.LOGITS_SCOPE_UNSPECIFIED, [2], 1),
        (pb.LOGITS_SCOPE_ALL, [0, 1, 2], 3),
    ):
        request.logits_scope = scope
        answer = boundary.stub.Prefill(request)
        assert [top.position for top in answer.top_entries] == positions
        assert answer.HasField("logits") == bool(rows)
        assert answer.logits.rows == rows
        for top in answer.top_entries:
            first, second = top.entries
            assert (-first.log_probability, first.token_id) < (-second.log_probability, second.token_id)


def test_more_top_entries_than_the_vocabulary_has() -> None:
    """Not reachable with 100 entries and 258 ids; the limit is what holds."""
    tiny = Configuration(3, 4, 1, 1, 4, 1, 4, 10000.0, 1e-6)
    with serving(seeded("tiny", tiny, 1)) as served:
        answer = served.stub.Prefill(pb.PrefillRequest(token_ids=ids(1), top_entries=100))
        assert sorted(entry.token_id for entry in answer.top_entries[0].entries) == [0, 1, 2]


@pytest.mark.parametrize(
    ("sequence", "field"),
    [
        (pb.ScoreSequence(token_ids=ids(1, 2, 3), targets=ids(2)), "targets"),
        (pb.ScoreSequence(token_ids=ids(1, 2), targets=ids(2, 3, 4)), "targets"),
        (pb.ScoreSequence(token_ids=ids(1, 2), targets=ids()), "targets"),
        (pb.ScoreSequence(token_ids=ids(1, 2, 3), targets=ids(2, 3, 4), target_mask=[True]), "target_mask"),
        (pb.ScoreSequence(token_ids=ids(1, 2, 3), target_mask=[True] * 3), "target_mask"),
    ],
)
def test_targets_and_masks_of_another_length(
    grouped: Serving, sequence: pb.ScoreSequence, field: str
) -> None:
    told = failure(lambda: grouped.stub.Score(pb.ScoreRequest(sequences=[sequence])))
    assert (told.code, told.reason, told.fields) == (INVALID, VALUE, [f"sequences[0].{field}"])


def test_a_mask_leaves_targets_out(grouped: Serving) -> None:
    sequence = pb.ScoreSequence(token_ids=ids(1, 2, 3, 4), target_mask=[False, True, False])
    masked = grouped.stub.Score(pb.ScoreRequest(sequences=[sequence])).scores[0]
    assert [token.counted for token in masked.tokens] == [False, True, False]
    assert masked.mean_nll == -masked.tokens[1].log_probability == -masked.sum_log_probability
    sequence.target_mask[:] = [False] * 3
    nothing = grouped.stub.Score(pb.ScoreRequest(sequences=[sequence])).scores[0]
    assert not nothing.HasField("mean_nll")
    assert math.copysign(1.0, nothing.sum_log_probability) == 1.0
    single = grouped.stub.Score(pb.ScoreRequest(sequences=[pb.ScoreSequence(token_ids=ids(1))])).scores[0]
    assert (len(single.tokens), single.HasField("mean_nll")) == (0, False)


def test_numbers_of_sequences(grouped: Serving) -> None:
    limit = grouped.engine.limits.max_score_sequences
    sequence = pb.ScoreSequence(token_ids=ids(1, 2))
    for count in (0, limit + 1):
        told = failure(lambda count=count: grouped.stub.Score(pb.ScoreRequest(sequences=[sequence] * count)))  # type: ignore[misc]
        assert (told.reason, told.fields) == (VALUE, ["sequences"])
    scores = grouped.stub.Score(pb.ScoreRequest(sequences=[sequence] * limit)).scores
    assert {score.SerializeToString(deterministic=True) for score in scores} == {
        scores[0].SerializeToString(deterministic=True)
    }
