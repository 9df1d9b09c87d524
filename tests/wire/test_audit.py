"""AuditSession: a session's rows against the full forward, over the wire."""

from __future__ import annotations

from collections.abc import Iterator

import grpc
import numpy as np
import pytest

from wire.calls import GREEDY, decode, failure, generate, ids, prefill, session
from wire.models import known_model
from wire.serving import Serving, serving
from zeroulp.v1 import decoder_pb2 as pb
from zeroulp.v1.decoder_pb2_grpc import DecoderServiceStub

PROMPT = [1 + token % 200 for token in range(44)]


@pytest.fixture
def own() -> Iterator[Serving]:
    with serving(known_model("grouped-query-7-window-8")) as served:
        yield served


def audit(stub: DecoderServiceStub, session_id: str) -> pb.AuditSessionResponse:
    return stub.AuditSession(pb.AuditSessionRequest(session_id=session_id))


def values_of(served: Serving, positions: int) -> int:
    c = served.loaded.model.configuration
    rows = 2 * c.layers * c.kv_width + c.model_width
    return positions * rows + c.vocabulary_size


def test_a_session_with_every_kind_of_past_is_equal_to_the_full_forward(own: Serving) -> None:
    stub = own.stub
    first = prefill(stub, PROMPT).session_id
    hit = prefill(stub, [*PROMPT[:32], 9, 8, 7]).session_id
    fork = stub.ForkSession(pb.ForkSessionRequest(session_id=hit)).session_id
    decode(stub, fork, [5, 6])
    stub.TruncateSession(pb.TruncateSessionRequest(session_id=fork, position=34))
    generate(stub, pb.GenerateRequest(session_id=fork, token_ids=ids(4), max_new_tokens=5, sampling=GREEDY))
    for opened in (first, hit, fork):
        before, places = session(stub, opened), own.footprint
        answer = audit(stub, opened)
        assert not answer.HasField("difference")
        assert answer.position == before.position
        assert answer.compared_values == values_of(own, before.position)
        assert (answer.work.token_forwards, answer.work.cache_appends) == (before.position, 0)
        assert session(stub, opened) == before
        assert own.footprint == places


@pytest.mark.parametrize(
    ("layer", "which", "stage"), [(0, 0, "key"), (1, 1, "value"), (None, 0, "final_norm")]
)
def test_one_bit_that_memory_has_lost_is_found(
    own: Serving, layer: int | None, which: int, stage: str
) -> None:
    opened = prefill(own.stub, PROMPT).session_id
    own.wait_until_idle()
    cache = own.hall.sessions.find(opened).session.cache
    block, at = int(cache.table[41 // 32]), 41 % 32
    if layer is None:
        place, feature = own.hall.pool.hidden[block, at], 3
    elif stage == "value":
        place, feature = own.hall.pool.layer(layer)[1][block, 0, at], 3
    else:  # keys lie in panels of 8 positions
        place, feature = own.hall.pool.layer(layer)[0][block, 0, at // 8, :, at % 8], 3
    place[feature] = np.nextafter(place[feature], np.inf)
    found = audit(own.stub, opened).difference
    assert found.HasField("layer") is (layer is not None)
    assert (found.layer, found.stage, found.position, found.feature) == (layer or 0, stage, 41, 3)
    assert (found.ulps, found.cached) == (1, float(place[feature]))


def test_rows_of_other_weights_are_not_compared(own: Serving) -> None:
    opened = prefill(own.stub, PROMPT).session_id
    own.wait_until_idle()
    node = own.loaded.model.parameters["final_norm.gain"]
    node.set_value(node.values())
    told = failure(lambda: audit(own.stub, opened))
    assert (told.code, told.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "PARAMETERS_CHANGED")
    assert failure(lambda: audit(own.stub, "nobody")).reason == "SESSION_UNKNOWN"
