"""Weights that leave the finite numbers, and parameters that change under a session."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import grpc
import numpy as np
import pytest

from wire.calls import (
    GREEDY,
    close,
    decode,
    failure,
    generate,
    ids,
    prefill,
    rows,
    score_rows,
    session,
    streaming,
)
from wire.models import known_model, seeded
from wire.serving import Serving, serving
from zeroulp.model import operations
from zeroulp.model.composition.segment import Segment
from zeroulp.model.composition.text_segment import TextSegment
from zeroulp.model.configuration import Configuration
from zeroulp.model.context import Execution, NoGrad
from zeroulp.model.kernels.arrays import F64, I64
from zeroulp.model.tensors import Node
from zeroulp.v1 import decoder_pb2 as pb

POISONED = 250
"""Only this token's row of the table is spoilt, so that its neighbours are well."""


@pytest.fixture
def spoilt() -> Iterator[Serving]:
    """A server of its own, one row of whose table is NaN before it starts."""
    loaded = known_model("grouped-query-7")
    table = loaded.model.parameters["token_embedding.weight"]
    values = table.values()
    values[POISONED, 3] = np.nan
    table.set_value(values)
    with serving(loaded) as served:
        yield served


@pytest.fixture
def own() -> Iterator[Serving]:
    """A server whose parameters a test may change."""
    with serving(known_model("grouped-query-7")) as served:
        yield served


def test_a_spoilt_row_is_named_by_every_call(spoilt: Serving) -> None:
    stub, footprint = spoilt.stub, spoilt.footprint
    for call in (
        lambda: prefill(stub, [1, POISONED, 2]),
        lambda: score_rows(stub, [1, POISONED, 2]),
        lambda: generate(stub, pb.GenerateRequest(token_ids=ids(1, POISONED, 2))),
    ):
        told = failure(call)
        assert (told.code, told.reason) == (grpc.StatusCode.DATA_LOSS, "NON_FINITE")
        assert told.metadata == {"stage": "embedding"}
        assert "embedding" in told.message
        assert spoilt.footprint == footprint


NAMES = {
    "blocks.1.attention.value.weight": ("1", "value"),
    "blocks.2.ffn.down.weight": ("2", "down"),
    "blocks.0.ffn_norm.gain": ("0", "ffn_norm"),
    "final_norm.gain": (None, "final_norm"),
}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_layer_and_stage_are_told(own: Serving, name: str, value: float) -> None:
    node = own.loaded.model.parameters[name]
    values = node.values()
    values.flat[1] = value
    node.set_value(values)
    told = failure(lambda: prefill(own.stub, [1, 2, 3]))
    layer, stage = NAMES[name]
    assert (told.code, told.reason) == (grpc.StatusCode.DATA_LOSS, "NON_FINITE")
    assert told.metadata.get("layer") == layer
    assert told.metadata["stage"] == stage
    assert own.footprint[0] == 0


def test_a_neighbour_in_the_same_step_keeps_its_bits(spoilt: Serving) -> None:
    # A row of the table is a column of the head, so good rows cannot be read there: NONE asks for none.
    stub = spoilt.stub
    good = prefill(stub, [1, 2, 3], pb.LOGITS_SCOPE_NONE).session_id
    twin = prefill(stub, [1, 2, 3], pb.LOGITS_SCOPE_NONE).session_id
    with spoilt.paused():
        request = pb.DecodeRequest(
            session_id=good, token_ids=ids(*range(10, 30)), logits_scope=pb.LOGITS_SCOPE_NONE
        )
        neighbour = stub.Decode.future(request)
        bad = stub.Prefill.future(
            pb.PrefillRequest(token_ids=ids(*[4] * 19, POISONED), logits_scope=pb.LOGITS_SCOPE_NONE)
        )
        spoilt.wait_for_calls(3)
    assert failure(bad.result).reason == "NON_FINITE"
    decoded = neighbour.result()
    expected = decode(stub, twin, range(10, 30), pb.LOGITS_SCOPE_NONE)
    assert decoded == expected
    spoilt.wait_until_idle()
    sessions = {opened.id: opened.session for opened in spoilt.hall.sessions}
    ours, theirs = sessions[good], sessions[twin]
    assert ours.last_hidden.tobytes() == theirs.last_hidden.tobytes()
    for mine, other in zip(ours.cache.layers, theirs.cache.layers, strict=True):
        for left, right in zip(mine.rows(0, 23), other.rows(0, 23), strict=True):
            assert left.tobytes() == right.tobytes()


def test_a_failure_in_a_later_layer_is_computed_again_without_its_cause(
    own: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Earlier layers have prepared the neighbour's rows by then, and prepare them once more."""
    stub = own.stub
    good = prefill(stub, [1, 2, 3]).session_id
    block = own.loaded.model.backbone.blocks[1]
    forward = block.forward
    whole = own.loaded.model.forward
    tokens: list[I64] = []

    def noted(context: NoGrad, segments: Sequence[TextSegment]) -> F64:
        tokens[:] = [segment.batch.ids[0] for segment in segments]
        return whole(context, segments)

    def spoilt(context: Execution[F64], x: F64, turns: tuple[F64, F64], segments: Sequence[Segment]) -> F64:
        after = forward(context, x, turns, segments)
        after[np.concatenate(tokens) == POISONED] = np.nan
        return after

    request = pb.DecodeRequest(
        session_id=good, token_ids=ids(*range(10, 30)), logits_scope=pb.LOGITS_SCOPE_ALL
    )
    alone = pb.GenerateRequest(token_ids=ids(1, 2), sampling=GREEDY, max_new_tokens=8)
    monkeypatch.setattr(own.loaded.model, "forward", noted)
    monkeypatch.setattr(block, "forward", spoilt)
    with own.paused():
        neighbour = stub.Decode.future(request)
        bad = stub.Prefill.future(pb.PrefillRequest(token_ids=ids(4, POISONED)))
        stream = streaming(stub, alone)
        own.wait_for_calls(4)
    told = failure(bad.result)
    events, decoded = list(stream), neighbour.result()
    monkeypatch.undo()
    assert (told.reason, told.metadata["layer"]) == ("NON_FINITE", "2")
    assert rows(decoded.logits) == own.full_rows([1, 2, 3, *range(10, 30)])[3:]
    assert generate(stub, alone).ids == [event.token.token_id for event in events[1:-1]]
    own.check_blocks()


def test_a_failed_decode_leaves_session_and_next_logits(own: Serving) -> None:
    """The token's own row is spoilt behind the revision's back, as a broken memory would do it."""
    stub = own.stub
    opened, twin = (prefill(stub, [1, 2, 3]).session_id for _ in range(2))
    before = session(stub, opened)
    node = own.loaded.model.parameters["token_embedding.weight"]
    sound = node.stored
    values = node.values()
    values[POISONED] = np.inf
    node.stored = node._store(values)
    told = failure(lambda: decode(stub, opened, [5, 6, POISONED]))
    assert (told.code, told.reason) == (grpc.StatusCode.DATA_LOSS, "NON_FINITE")
    assert session(stub, opened) == before
    node.stored = sound
    decoded = decode(stub, opened, [5, 6])
    assert decoded == decode(stub, twin, [5, 6])
    assert rows(decoded.logits)[0] == own.full_rows([1, 2, 3, 5, 6])[-1]


def test_a_generation_that_fails_keeps_what_it_has_told(
    own: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    stub = own.stub
    greedy = generate(stub, pb.GenerateRequest(token_ids=ids(1, 2, 3), max_new_tokens=9, sampling=GREEDY)).ids
    poisoned = next(token for token in greedy if token != greedy[0])
    told = greedy[: greedy.index(poisoned)]
    own.wait_until_idle()
    opened = prefill(stub, [1, 2, 3]).session_id
    look_up = operations.embedding

    def spoilt(context: NoGrad, table: Node, tokens: I64) -> F64:
        x = look_up(context, table, tokens)
        x[tokens == poisoned] = np.nan
        return x

    seen: list[int] = []

    def read() -> None:
        request = pb.GenerateRequest(session_id=opened, max_new_tokens=9, sampling=GREEDY)
        for event in streaming(stub, request):
            if event.HasField("token"):
                seen.append(event.token.token_id)

    with monkeypatch.context() as patch:
        patch.setattr(operations, "embedding", spoilt)
        assert failure(read).code is grpc.StatusCode.DATA_LOSS
    assert seen == told
    assert list(session(stub, opened).token_ids) == [1, 2, 3, *told]
    resumed = generate(stub, pb.GenerateRequest(session_id=opened, resume_position=3))
    assert resumed.ids == greedy


def test_a_changed_parameter_makes_open_sessions_stale(own: Serving) -> None:
    stub = own.stub
    opened = generate(
        stub, pb.GenerateRequest(token_ids=ids(1, 2), max_new_tokens=3, sampling=GREEDY)
    ).started.session_id
    before, footprint = session(stub, opened), own.footprint
    node = own.loaded.model.parameters["blocks.0.ffn.up.weight"]
    node.set_value(node.values() * 2.0)
    for call in (
        lambda: decode(stub, opened, [4]),
        lambda: generate(stub, pb.GenerateRequest(session_id=opened, max_new_tokens=2)),
        lambda: generate(stub, pb.GenerateRequest(session_id=opened, token_ids=ids(4), max_new_tokens=2)),
        lambda: generate(stub, pb.GenerateRequest(session_id=opened, resume_position=2)),
    ):
        told = failure(call)
        assert (told.code, told.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "PARAMETERS_CHANGED")
        assert told.metadata["parameter"] == "blocks.0.ffn.up.weight"
        assert (session(stub, opened), own.footprint) == (before, footprint)
    again = prefill(stub, list(before.token_ids))
    assert rows(again.logits)[0] == own.full_rows(list(before.token_ids))[-1]
    assert close(stub, opened).position == 5


def test_squares_that_overflow_are_not_turned_into_zeros(own: Serving) -> None:
    """A finite row whose mean square is infinite would be normalised to all zeros, and look well."""
    node = own.loaded.model.parameters["token_embedding.weight"]
    values = node.values()
    values[POISONED] = 1e200
    node.set_value(values)
    told = failure(lambda: prefill(own.stub, [1, POISONED], pb.LOGITS_SCOPE_NONE))
    assert (told.code, told.reason) == (grpc.StatusCode.DATA_LOSS, "NON_FINITE")
    assert told.metadata == {"layer": "0", "stage": "attention_norm"}


def test_a_score_that_overflows_is_not_masked_away() -> None:
    """An infinite negative score has weight zero, so nothing after the softmax would show it."""
    loaded = seeded("tiny", Configuration(8, 4, 1, 1, 8, 1, 8, 10000.0, 1e-6), 3)
    parameters = loaded.model.parameters
    table = parameters["token_embedding.weight"].values()
    table[0] = 0.0
    parameters["token_embedding.weight"].set_value(table)
    parameters["blocks.0.attention.key.weight"].set_value(np.eye(4) * 1e160)
    parameters["blocks.0.attention.query.weight"].set_value(np.eye(4) * -1e160)
    with serving(loaded) as served:
        told = failure(lambda: prefill(served.stub, [0, 1]))
        assert (told.code, told.reason) == (grpc.StatusCode.DATA_LOSS, "NON_FINITE")
        assert told.metadata["layer"] == "0"
