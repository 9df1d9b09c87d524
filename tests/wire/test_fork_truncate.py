"""Copies of sessions, and sessions rolled back: in every bit what they are without that history."""

from __future__ import annotations

import grpc
import numpy as np
import pytest

from wire.calls import GREEDY, close, decode, failure, generate, ids, prefill, rows, session
from wire.logs import kept_log
from wire.models import PROMPT, SHARED, seeded
from wire.serving import Serving, serving, until
from zeroulp.model.kernels.cache_rows import BLOCK
from zeroulp.server.engine.limits import Limits
from zeroulp.v1 import decoder_pb2 as pb
from zeroulp.v1.decoder_pb2_grpc import DecoderServiceStub

pytestmark = pytest.mark.usefixtures("nothing_is_left")
ALL = pb.LOGITS_SCOPE_ALL
EDGES = [1, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK]


def fork(stub: DecoderServiceStub, session_id: str) -> pb.ForkSessionResponse:
    return stub.ForkSession(pb.ForkSessionRequest(session_id=session_id))


def truncate(stub: DecoderServiceStub, session_id: str, position: int) -> pb.TruncateSessionResponse:
    return stub.TruncateSession(pb.TruncateSessionRequest(session_id=session_id, position=position))


def drawn(stub: DecoderServiceStub, session_id: str, count: int = 5) -> tuple[list[int], list[bytes]]:
    """Generate on a session; return the tokens, and the rows that they were drawn from."""
    request = pb.GenerateRequest(
        session_id=session_id,
        max_new_tokens=count,
        sampling=pb.SamplingParameters(seed=4, presence_penalty=0.3),
        logits_scope=pb.LOGITS_SCOPE_LAST,
    )
    stream = generate(stub, request)
    return stream.ids, [row for token in stream.tokens for row in rows(token.logits)]


@pytest.mark.parametrize("first", ["source", "fork"])
@pytest.mark.parametrize("length", EDGES)
def test_both_branches_are_as_if_never_forked(here: Serving, alone: Serving, length: int, first: str) -> None:
    source = prefill(here.stub, PROMPT[:length])
    footprint = here.footprint
    forked = fork(here.stub, source.session_id)
    assert here.footprint == (footprint[0] + 1, footprint[1])  # no block was copied
    assert (forked.position, forked.total_work) == (length, pb.Work(reused_tokens=length))
    assert forked.session_id != source.session_id
    assert list(session(here.stub, forked.session_id).token_ids) == PROMPT[:length]
    branches = {"source": (source.session_id, [5, 6, 7]), "fork": (forked.session_id, [8, 9])}
    for name in sorted(branches, key=lambda name: name != first):
        branch, tail = branches[name]
        twin = prefill(alone.stub, PROMPT[:length]).session_id
        ours, theirs = decode(here.stub, branch, tail, ALL), decode(alone.stub, twin, tail, ALL)
        assert ours.logits == theirs.logits
        assert ours.work == theirs.work
        if name == "source":
            assert ours.total_work == theirs.total_work
        else:
            assert ours.total_work.reused_tokens == length
            assert ours.total_work.token_forwards == len(tail)
        assert drawn(here.stub, branch) == drawn(alone.stub, twin)
        assert here.cached(branch) == alone.cached(twin)
        assert list(session(here.stub, branch).token_ids) == list(session(alone.stub, twin).token_ids)
        close(alone.stub, twin)


def test_a_fork_draws_its_first_token_without_a_forward(here: Serving) -> None:
    source = prefill(here.stub, PROMPT[:40])
    forked = fork(here.stub, source.session_id).session_id
    stream = generate(
        here.stub,
        pb.GenerateRequest(
            session_id=forked, max_new_tokens=1, sampling=GREEDY, logits_scope=pb.LOGITS_SCOPE_LAST
        ),
    )
    assert rows(stream.tokens[0].logits) == rows(source.logits) == here.full_rows(PROMPT[:40])[-1:]
    assert stream.finished.work.token_forwards == 1


def test_forks_of_forks_outlive_each_other(here: Serving) -> None:
    capacity = here.hall.pool.capacity
    names = [prefill(here.stub, PROMPT[:40]).session_id]
    for number in range(6):
        names.append(fork(here.stub, names[-1]).session_id)
        decode(here.stub, names[-1], [number])
    assert session(here.stub, names[-1]).total_work.reused_tokens == 45
    for name in names[:-1]:
        close(here.stub, name)
    tokens = [*PROMPT[:40], *range(6)]
    assert list(session(here.stub, names[-1]).token_ids) == tokens
    assert rows(decode(here.stub, names[-1], [9]).logits) == here.full_rows([*tokens, 9])[-1:]
    assert here.footprint == (1, capacity - 2)


def test_a_fork_takes_a_place() -> None:
    limits = Limits(max_sessions=2, cache_bytes=10**6)
    with serving(seeded("own", SHARED, 5), limits) as own:
        opened = prefill(own.stub, [1]).session_id
        fork(own.stub, opened)
        footprint = own.footprint
        told = failure(lambda: fork(own.stub, opened))
        assert (told.code, told.reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "SESSION_LIMIT")
        assert told.metadata == {"max_sessions": "2"}
        assert own.footprint == footprint


def test_sessions_that_are_not_there(here: Serving) -> None:
    for call in (lambda: fork(here.stub, "none"), lambda: truncate(here.stub, "none", 1)):
        told = failure(call)
        assert (told.code, told.reason, told.fields) == (
            grpc.StatusCode.NOT_FOUND,
            "SESSION_UNKNOWN",
            ["session_id"],
        )


def test_a_fork_of_changed_parameters_is_refused() -> None:
    with serving(seeded("own", SHARED, 5)) as own:
        opened = prefill(own.stub, PROMPT[:40]).session_id
        footprint = own.footprint
        gain = own.loaded.model.parameters["final_norm.gain"]
        gain.set_value(gain.values() * 1.5)
        told = failure(lambda: fork(own.stub, opened))
        assert (told.code, told.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "PARAMETERS_CHANGED")
        assert own.footprint == footprint


@pytest.mark.parametrize("position", [*EDGES, 70])
def test_a_cut_session_is_as_if_the_rest_had_never_been(here: Serving, alone: Serving, position: int) -> None:
    opened = prefill(here.stub, PROMPT[:70])
    before = session(here.stub, opened.session_id)
    cut = truncate(here.stub, opened.session_id, position)
    assert (cut.position, cut.total_work) == (position, before.total_work)  # work is never undone
    assert cut.cache_bytes == before.cache_bytes // 3 * -(-position // BLOCK)
    twin = prefill(alone.stub, PROMPT[:position])
    now = session(here.stub, opened.session_id)
    assert list(now.token_ids) == PROMPT[:position]
    assert here.cached(opened.session_id) == alone.cached(twin.session_id)
    assert here.footprint[1] - here.hall.pool.capacity == alone.footprint[1] - alone.hall.pool.capacity
    tokens, drawn_from = drawn(here.stub, opened.session_id)
    assert (tokens, drawn_from) == drawn(alone.stub, twin.session_id)
    assert drawn_from[:1] == rows(twin.logits)
    ours = decode(here.stub, opened.session_id, [3, 4], ALL)
    theirs = decode(alone.stub, twin.session_id, [3, 4], ALL)
    assert (ours.logits, ours.work) == (theirs.logits, theirs.work)
    assert ours.total_work.token_forwards == 70 + 5 + 2
    assert here.cached(opened.session_id) == alone.cached(twin.session_id)


def test_a_cut_leaves_those_who_share_alone(here: Serving) -> None:
    opened = prefill(here.stub, PROMPT[:70]).session_id
    hit = prefill(here.stub, PROMPT[:70])
    forked = fork(here.stub, opened).session_id
    assert hit.work.reused_tokens == 64
    truncate(here.stub, opened, 40)
    decode(here.stub, opened, [1] * 40)
    for other in (hit.session_id, forked):
        assert rows(decode(here.stub, other, [5]).logits) == here.full_rows([*PROMPT[:70], 5])[-1:]
    want = here.full_rows([*PROMPT[:40], *[1] * 40, 2])[-1:]
    assert rows(decode(here.stub, opened, [2]).logits) == want
    # what was cut off is not found any more, what came instead is
    assert prefill(here.stub, [*PROMPT[:40], *[1] * 30]).work.reused_tokens == 64


@pytest.mark.parametrize("position", [0, 4, 2**63])
def test_a_cut_elsewhere_is_refused(here: Serving, position: int) -> None:
    opened = prefill(here.stub, [1, 2, 3]).session_id
    before, footprint = session(here.stub, opened), here.footprint
    told = failure(lambda: truncate(here.stub, opened, position))
    assert (told.code, told.reason, told.fields) == (
        grpc.StatusCode.INVALID_ARGUMENT,
        "INVALID_ARGUMENT_VALUE",
        ["position"],
    )
    assert f"position is {position};" in told.message
    assert told.message.endswith("up to 3")
    assert (session(here.stub, opened), here.footprint) == (before, footprint)


def test_a_cut_ends_what_could_be_resumed(here: Serving) -> None:
    request = pb.GenerateRequest(token_ids=ids(1, 2), max_new_tokens=6, sampling=GREEDY)
    stream = generate(here.stub, request)
    resume = pb.GenerateRequest(session_id=stream.started.session_id, resume_position=4)
    failure(lambda: truncate(here.stub, stream.started.session_id, 9))
    assert generate(here.stub, resume).ids == stream.ids[2:]
    truncate(here.stub, stream.started.session_id, 5)
    assert failure(lambda: generate(here.stub, resume)).fields == ["resume_position"]
    request = pb.GenerateRequest(session_id=stream.started.session_id, max_new_tokens=3, sampling=GREEDY)
    assert generate(here.stub, request).ids == stream.ids[3:]


@pytest.mark.parametrize("seed", range(4))
def test_drafts_leave_no_trace(here: Serving, alone: Serving, seed: int) -> None:
    """Speculative decoding from outside: the greedy tokens, whatever the drafts are."""
    rng = np.random.default_rng(seed)
    start = int(rng.integers(20, 60))
    twin = prefill(alone.stub, PROMPT[:start])
    stream = generate(
        alone.stub,
        pb.GenerateRequest(
            session_id=twin.session_id,
            max_new_tokens=40,
            sampling=GREEDY,
            logits_scope=pb.LOGITS_SCOPE_LAST,
        ),
    )
    opened = prefill(here.stub, PROMPT[:start])
    newest, forwards = rows(opened.logits)[0], start
    tokens: list[int] = []
    seen: list[bytes] = []
    while len(tokens) < 40:
        good = [*stream.ids[len(tokens) : len(tokens) + int(rng.integers(0, 6))]]
        draft = [*good, *rng.integers(0, 61, 3).tolist()]
        decoded = decode(here.stub, opened.session_id, draft, ALL)
        forwards += len(draft)
        checked = [newest, *rows(decoded.logits)]
        accepted = 0
        while accepted < len(draft) and draft[accepted] == int(np.frombuffer(checked[accepted]).argmax()):
            accepted += 1
        cut = truncate(here.stub, opened.session_id, decoded.position - len(draft) + accepted)
        own = int(np.frombuffer(checked[accepted]).argmax())
        commit = decode(here.stub, opened.session_id, [own])
        forwards += 1
        assert commit.position == cut.position + 1
        tokens += [*draft[:accepted], own]
        seen += checked[: accepted + 1]
        newest = rows(commit.logits)[0]
    assert tokens[:40] == stream.ids
    assert seen[:40] == [row for token in stream.tokens for row in rows(token.logits)]
    state = session(here.stub, opened.session_id)
    assert list(state.token_ids) == [*PROMPT[:start], *tokens]
    assert state.total_work.token_forwards == forwards
    truncate(here.stub, opened.session_id, start + 40)
    assert here.cached(opened.session_id) == alone.cached(twin.session_id)


def test_forks_and_cuts_are_lines_of_the_log() -> None:
    with kept_log() as log, serving(seeded("own", SHARED, 5)) as own:
        opened = prefill(own.stub, PROMPT[:40]).session_id
        forked = fork(own.stub, opened).session_id
        truncate(own.stub, forked, 3)
        prefill(own.stub, PROMPT[:40])
        until(lambda: len(log.lines("call")) == 4)
        lines = log.lines("call")
        assert [line["method"] for line in lines] == ["Prefill", "ForkSession", "TruncateSession", "Prefill"]
        assert (lines[1]["session"], lines[1]["fork"], lines[1]["status"]) == (opened, forked, "OK")
        assert (lines[2]["session"], lines[2]["status"]) == (forked, "OK")
        assert (lines[0]["reused_tokens"], lines[3]["reused_tokens"]) == (0, 32)
