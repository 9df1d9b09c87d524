"""Trace: every stage of a full and of a cached pass, in the bits of one full forward; nothing stays."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import fields

import pytest

from wire.calls import decode, hang_up, ids, prefill, rows, score_rows, session
from wire.models import known_model
from wire.serving import CACHE_BYTES, Serving, serving, until
from wire.test_broken_off import LONG
from wire.traces import observed, read, trace
from zeroulp.model.loading import load
from zeroulp.server.engine.event_channel import EventChannel
from zeroulp.server.engine.limits import Limits
from zeroulp.server.engine.stop_signal import StopSignal
from zeroulp.server.engine.trace_calls import TraceCall, TraceEvent
from zeroulp.server.jobs.trace import TraceJob
from zeroulp.v1 import decoder_pb2 as pb

IDS = [0, 99, 5, 17, 230, 99, 41, 7, 7, 120, 3, 56]
T = len(IDS)
ROW_BYTES = 300 * 8
"""Of the grouped model's logits."""


@pytest.fixture(scope="module", params=["glass", "grouped"])
def served(request: pytest.FixtureRequest) -> Serving:
    """glass-default, and the grouped model of the known answers."""
    found = request.getfixturevalue(request.param)
    assert isinstance(found, Serving)
    return found


@pytest.fixture(scope="module")
def ragged() -> Iterator[Serving]:
    """A server with tiny steps and tiny messages: 5 rows a step, and logits row by row."""
    limits = Limits(cache_bytes=CACHE_BYTES, step_rows=5, shared_step_rows=3, trace_part_bytes=ROW_BYTES + 20)
    with serving(known_model("grouped-query-7"), limits) as running:
        yield running


def test_a_full_pass_is_one_full_forward(served: Serving) -> None:
    footprint = served.footprint
    full = trace(served.stub, IDS)
    assert full.rows() == observed(served.loaded.model, served.context, IDS)
    assert (list(full.started.token_ids), full.started.first_position) == (IDS, 0)
    assert full.positions == list(range(T))
    card = served.stub.GetModel(pb.GetModelRequest())
    assert full.started.model_name == card.name
    assert full.started.parameters_digest == card.parameters_digest
    assert full.started.arithmetic_version == card.arithmetic_version
    assert full.work.token_forwards == T
    assert full.work.cache_appends == 0
    assert list(map(bytes, full.tensors["logits"])) == score_rows(served.stub, IDS)
    assert served.footprint == footprint


@pytest.mark.parametrize("prefix", [1, 5, T - 1])
def test_a_cached_pass_has_the_bits_of_the_full_one(served: Serving, prefix: int) -> None:
    footprint = served.footprint
    full = observed(served.loaded.model, served.context, IDS)
    cached = trace(served.stub, IDS, prefix_tokens=prefix)
    assert cached.positions == list(range(prefix, T))
    # Earlier context stays in keys and values, and is not embedded again.
    assert cached.tensors["embed"].shape[0] == T - prefix
    assert cached.rows() == {key: row for key, row in full.items() if key[1] >= prefix}
    assert (cached.work.prefill_tokens, cached.work.decode_tokens) == (prefix, T - prefix)
    layers = served.loaded.model.configuration.layers
    assert cached.work.cache_appends == T * layers
    assert served.footprint == footprint


def test_a_session_is_traced_and_stays_as_it_was(served: Serving) -> None:
    opened, twin = (prefill(served.stub, IDS[:4]).session_id for _ in range(2))
    before, footprint = session(served.stub, opened), served.footprint
    over = trace(served.stub, IDS[4:9], session_id=opened)
    full = observed(served.loaded.model, served.context, IDS[:9])
    assert over.rows() == {key: row for key, row in full.items() if key[1] >= 4}
    assert (over.started.first_position, over.positions) == (4, list(range(4, 9)))
    assert over.work.decode_tokens == 5
    assert session(served.stub, opened) == before
    assert served.footprint == footprint
    assert decode(served.stub, opened, [1, 2]) == decode(served.stub, twin, [1, 2])


def test_names_and_positions_choose(served: Serving) -> None:
    full = observed(served.loaded.model, served.context, IDS)
    some = trace(served.stub, IDS, names=["logits", "*.1.key*", "embed"], positions=[1, 2, 7])
    assert list(some.tensors) == ["embed", "blocks.1.key", "blocks.1.key_rope", "logits"]
    assert some.positions == [1, 2, 7]
    assert some.rows() == {(n, t): full[n, t] for n in some.tensors for t in some.positions}
    last = trace(served.stub, IDS, prefix_tokens=3, names=["final_norm"], positions=[T - 1])
    assert last.rows() == {("final_norm", T - 1): full["final_norm", T - 1]}


def test_text_is_traced_as_the_ids_that_it_becomes(glass: Serving) -> None:
    text = trace(glass.stub, "Hello there", names=["final_norm"])
    tokens = list(glass.stub.Tokenize(pb.TokenizeRequest(text="Hello there")).token_ids)
    assert list(text.started.token_ids) == tokens
    assert text.rows() == trace(glass.stub, tokens, names=["final_norm"]).rows()


def test_steps_and_messages_of_any_size_give_the_same_rows(ragged: Serving) -> None:
    tokens = [(7 * t + t * t) % 258 for t in range(33)]
    full = observed(ragged.loaded.model, ragged.context, tokens)
    whole = trace(ragged.stub, tokens)
    assert whole.rows() == full
    assert [len(part.positions) for part in whole.parts if part.name == "logits"] == [1] * 33
    assert len({part.name for part in whole.parts}) < len(whole.parts)
    cached = trace(ragged.stub, tokens, prefix_tokens=17, positions=[17, 18, 29, 32])
    assert cached.rows() == {(n, t): full[n, t] for n in cached.tensors for t in (17, 18, 29, 32)}


def test_the_message_limit_cuts_too() -> None:
    limits = Limits(cache_bytes=CACHE_BYTES, max_message_bytes=4096 + ROW_BYTES + 20)
    with serving(known_model("grouped-query-7"), limits) as served:
        full = observed(served.loaded.model, served.context, IDS)
        logits = trace(served.stub, IDS, names=["logits"])
        assert logits.rows() == {("logits", t): full["logits", t] for t in range(T)}
        assert [len(part.positions) for part in logits.parts] == [1] * T


def test_parts_stay_below_their_size(glass: Serving) -> None:
    size = glass.engine.limits.trace_part_bytes
    tokens = [t % 1024 for t in range(200)]
    parts = trace(glass.stub, tokens, names=["logits"]).parts
    assert len(parts) == 2
    assert all(len(part.values) <= size for part in parts)


def test_neighbours_keep_their_bits_and_see_nothing(grouped: Serving) -> None:
    tokens = [(11 * t) % 258 for t in range(60)]
    full = observed(grouped.loaded.model, grouped.context, tokens)
    want = grouped.full_rows(IDS)
    footprint = grouped.footprint
    with grouped.paused():
        traces = [grouped.stub.Trace(pb.TraceRequest(token_ids=ids(*tokens))) for _ in range(2)]
        score = grouped.stub.Score.future(
            pb.ScoreRequest(
                sequences=[pb.ScoreSequence(token_ids=ids(*IDS))], logits_scope=pb.LOGITS_SCOPE_ALL
            )
        )
        grouped.wait_for_calls(4)
    assert rows(score.result().scores[0].logits) == want
    assert [read(stream).rows() for stream in traces] == [full, full]
    assert grouped.footprint == footprint


def test_a_slow_reader_holds_values_only(grouped: Serving) -> None:
    """The stream is one event ahead; rows of the cache and the session's turn are free meanwhile."""
    opened = prefill(grouped.stub, IDS[:3]).session_id
    footprint = grouped.footprint
    channel: EventChannel[TraceEvent] = EventChannel(1)
    channel.on_room = grouped.engine.wake
    job = TraceJob(StopSignal(), TraceCall(tuple(IDS[3:]), session_id=opened), channel)
    job.stop.on_cancel = grouped.engine.wake
    grouped.engine.submit(job)
    until(lambda: channel.full)
    assert grouped.hall.trace_room.used > 0
    assert grouped.hall.pool.free == footprint[1]
    assert decode(grouped.stub, opened, [7]).position == 4
    job.stop.cancel()
    grouped.check_blocks()


def test_a_cancelled_stream_gives_the_values_room_back(glass: Serving) -> None:
    footprint = glass.footprint
    tokens = [t % 1024 for t in range(400)]
    stream = glass.stub.Trace(pb.TraceRequest(token_ids=ids(*tokens)))
    assert next(iter(stream)).WhichOneof("event") == "started"
    assert glass.hall.trace_room.used > 0
    hang_up(stream)
    assert glass.footprint == footprint


def test_a_pass_that_is_cancelled_leaves_nothing(slow: Serving) -> None:
    opened = prefill(slow.stub, LONG[:3]).session_id
    before, footprint = session(slow.stub, opened), slow.footprint
    for request in (
        pb.TraceRequest(token_ids=ids(*LONG), names=["embed"]),
        pb.TraceRequest(token_ids=ids(*LONG), names=["embed"], prefix_tokens=4000),
        pb.TraceRequest(token_ids=ids(*LONG[3:]), names=["embed"], session_id=opened),
    ):
        stream = slow.stub.Trace(request)
        until(lambda: slow.engine._busy and slow.hall.trace_room.used)
        hang_up(stream)
        assert slow.footprint == footprint
    assert session(slow.stub, opened) == before


def test_the_map_and_the_limits_are_told() -> None:
    with serving(load("boundary-39")) as own:
        card = own.stub.GetModel(pb.GetModelRequest())
    assert [module.name for module in card.model_map.modules] == [
        "token_embedding",
        "blocks.0",
        "blocks.1",
        "final_norm",
        "output_head",
    ]
    assert sum(module.parameter_count for module in card.model_map.modules) == card.parameter_count
    (edge,) = card.model_map.shared_weights
    assert (edge.parameter, edge.borrower) == ("token_embedding.weight", "output_head")
    limits = {field.name for field in fields(Limits)} & {f.name for f in pb.Limits.DESCRIPTOR.fields}
    assert all(getattr(card.limits, name) == getattr(own.engine.limits, name) for name in limits)
    assert {"max_trace_bytes", "max_trace_patterns", "max_trace_pattern_bytes"} <= limits


def test_threads_do_not_matter(glass: Serving) -> None:
    """Several traces at once, each whole."""
    full = observed(glass.loaded.model, glass.context, IDS)
    got: list[dict[tuple[str, int], bytes]] = []
    workers = [threading.Thread(target=lambda: got.append(trace(glass.stub, IDS).rows())) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert got == [full] * 4
