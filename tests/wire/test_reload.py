"""Other weights without a restart: nothing mixes, nothing is half done, and the bits are a fresh server's."""

from __future__ import annotations

import gc
import os
import queue
import threading
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from unit.formats.llama_samples import write_llama
from wire.admins import BEARER, CONFIGURATION, NEW, OLD, administered, model_of, reload, write_model
from wire.calls import (
    GREEDY,
    close,
    decode,
    failure,
    failure_of,
    generate,
    hang_up,
    ids,
    prefill,
    rows,
    score_rows,
    session,
    streaming,
)
from wire.logs import Log, kept_log
from wire.models import seeded
from wire.serving import Serving, serving, until
from wire.traces import trace
from zeroulp.model.errors import CallCancelled, ParametersChanged
from zeroulp.model.loading import load
from zeroulp.server import reloader
from zeroulp.server.engine.event_channel import EventChannel
from zeroulp.server.engine.stop_signal import StopSignal
from zeroulp.server.engine.trace_calls import TraceCall, TraceEvent, TraceStarted
from zeroulp.server.jobs.trace import TraceJob
from zeroulp.server.reloader import Reloader
from zeroulp.v1 import admin_pb2
from zeroulp.v1 import decoder_pb2 as pb
from zeroulp.v1.admin_pb2_grpc import AdminServiceStub

PROMPT = [1, 2, 3]


@pytest.fixture
def log() -> Iterator[Log]:
    with kept_log() as log:
        yield log


@pytest.fixture
def own(tmp_path: Path, log: Log) -> Iterator[Serving]:
    with administered(tmp_path, write_model(tmp_path / "old.safetensors", OLD)) as served:
        yield served
        served.check_blocks()


@pytest.fixture
def new(tmp_path: Path) -> str:
    return write_model(tmp_path / "new.safetensors", NEW)


@pytest.fixture(scope="module")
def fresh() -> Iterator[Serving]:
    """A server that was started with the new weights."""
    with serving(seeded("new", CONFIGURATION, 1234)) as served:
        yield served


def stale(call: Callable[[], object]) -> None:
    told = failure(call)
    assert (told.code, told.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "PARAMETERS_CHANGED")


def test_sessions_from_before_are_stale_and_fresh_ones_have_a_fresh_servers_bits(
    own: Serving, fresh: Serving, new: str
) -> None:
    opened = generate(
        own.stub, pb.GenerateRequest(token_ids=ids(*PROMPT), max_new_tokens=4, sampling=GREEDY)
    ).started.session_id
    before = session(own.stub, opened)
    reload(own.channel, new)
    stale(lambda: decode(own.stub, opened, [4]))
    stale(lambda: generate(own.stub, pb.GenerateRequest(session_id=opened, max_new_tokens=2)))
    stale(lambda: generate(own.stub, pb.GenerateRequest(session_id=opened, resume_position=3)))
    assert session(own.stub, opened) == before
    assert close(own.stub, opened).position == 7
    assert score_rows(own.stub, PROMPT) == score_rows(fresh.stub, PROMPT)
    one, other = prefill(own.stub, PROMPT), prefill(fresh.stub, PROMPT)
    assert rows(one.logits) == rows(other.logits)
    for token in (9, 8, 7):
        assert rows(decode(own.stub, one.session_id, [token]).logits) == rows(
            decode(fresh.stub, other.session_id, [token]).logits
        )
    request = pb.GenerateRequest(
        token_ids=ids(*PROMPT), max_new_tokens=20, sampling=pb.SamplingParameters(temperature=1.0, seed=5)
    )
    assert generate(own.stub, request).ids == generate(fresh.stub, request).ids


def test_the_model_tells_its_new_name_and_digest(own: Serving, fresh: Serving, new: str, log: Log) -> None:
    before = model_of(own)
    answer = reload(own.channel, new)
    after = model_of(own)
    assert (before.name, after.name, answer.name) == ("old", "new", "new")
    assert after.parameters_digest == model_of(fresh).parameters_digest != before.parameters_digest
    assert (answer.parameters_digest_before, answer.parameters_digest_after) == (
        before.parameters_digest,
        after.parameters_digest,
    )
    assert own.loaded.model.parameters.digest() == after.parameters_digest
    assert answer.file_bytes == os.stat(new).st_size
    assert answer.parameter_bytes == after.parameter_bytes == own.loaded.model.parameters.nbytes
    assert answer.seconds > 0.0
    before.name, before.parameters_digest = after.name, after.parameters_digest
    assert before == after
    (line,) = log.lines("reloaded")
    assert (line["model"], line["digest_after"]) == ("new", after.parameters_digest)
    assert [told["of"] for told in log.lines("reloading")] == [len(after.parameters)] * 4
    until(lambda: [told for told in log.lines("call") if told["method"] == "ReloadModel"])


def test_replaced_values_leave_the_memory(own: Serving, new: str) -> None:
    """Without a garbage collection, whose time nobody knows."""
    table = own.loaded.model.parameters["token_embedding.weight"]
    gc.disable()
    try:
        reload(own.channel, new)
        kept = weakref.ref(table.matrix.panels)
        assert kept() is not None
        reload(own.channel)
        until(lambda: kept() is None)
    finally:
        gc.enable()


def test_an_empty_path_is_the_present_source_again(own: Serving, tmp_path: Path, new: str) -> None:
    write_model(tmp_path / "next.safetensors", NEW)
    (tmp_path / "next.safetensors").replace(tmp_path / "old.safetensors")
    assert reload(own.channel).name == "old"
    assert model_of(own).parameters_digest == NEW.model.parameters.digest()
    reload(own.channel, new)
    write_model(tmp_path / "new.safetensors", OLD)
    assert reload(own.channel).name == "new"
    assert model_of(own).parameters_digest == OLD.model.parameters.digest()


def test_equal_values_make_sessions_stale_too(own: Serving) -> None:
    opened = prefill(own.stub, PROMPT).session_id
    answer = reload(own.channel)
    assert answer.parameters_digest_before == answer.parameters_digest_after
    stale(lambda: decode(own.stub, opened, [4]))


def test_calls_under_way_fail_and_calls_behind_the_swap_are_new(
    own: Serving, fresh: Serving, new: str
) -> None:
    """All start in one look of the compute thread, in this order: the first four, the swap, the last one."""
    stub = own.stub
    opened, sessions = prefill(stub, PROMPT), len(own.hall.sessions)
    score = pb.ScoreRequest(sequences=[pb.ScoreSequence(token_ids=ids(*PROMPT))])
    with own.paused():
        early: list[Any] = [
            stub.Prefill.future(pb.PrefillRequest(token_ids=ids(*PROMPT))),
            stub.Decode.future(pb.DecodeRequest(session_id=opened.session_id, token_ids=ids(4))),
            stub.Score.future(score),
        ]
        own.wait_for_calls(4)
        stream = streaming(stub, pb.GenerateRequest(token_ids=ids(*PROMPT), sampling=GREEDY))
        own.wait_for_calls(5)
        swap = AdminServiceStub(own.channel).ReloadModel.future(
            admin_pb2.ReloadModelRequest(path=new), metadata=BEARER
        )
        own.wait_for_calls(6)
        late = stub.Prefill.future(pb.PrefillRequest(token_ids=ids(*PROMPT)))
        own.wait_for_calls(7)
    assert swap.result().name == "new"
    for call in early:
        stale(call.result)
    stale(lambda: list(stream))
    assert rows(late.result().logits) == rows(prefill(fresh.stub, PROMPT).logits)
    assert session(stub, opened.session_id).position == 3
    own.wait_until_idle()
    assert len(own.hall.sessions) == sessions + 1  # the late one


def test_a_trace_is_of_the_model_that_it_names(own: Serving, fresh: Serving, new: str) -> None:
    channel = EventChannel[TraceEvent](1)  # its reader is slow: the pass is over, the stream is not
    job = TraceJob(StopSignal(), TraceCall(tuple(PROMPT)), channel)
    channel.on_room = job.stop.on_cancel = own.engine.wake
    own.engine.submit(job)
    until(lambda: channel.full)
    reload(own.channel, new)
    events = iter(channel)
    assert isinstance(next(events), TraceStarted)
    with pytest.raises(ParametersChanged):
        list(events)
    own.check_blocks()
    after, other = trace(own.stub, PROMPT, prefix_tokens=1), trace(fresh.stub, PROMPT, prefix_tokens=1)
    assert after.rows() == other.rows()
    assert after.started.parameters_digest == model_of(own).parameters_digest
    assert after.started.model_name == "new"


def test_decoding_neighbours_see_one_model_and_then_the_other(own: Serving, new: str) -> None:
    tokens = list(range(1, 25))
    old_rows = own.full_rows(tokens)
    with serving(NEW) as other:
        new_rows = other.full_rows(tokens)
    assert not set(old_rows) & set(new_rows)
    begun = threading.Barrier(4)
    seen: list[list[str]] = [[] for _ in range(3)]
    problems: list[object] = []

    def neighbour(index: int) -> None:
        try:
            begun.wait(30)
            while seen[index].count("new") < 2:
                seen[index].append(follow(own, tokens, old_rows, new_rows))
        except BaseException as error:
            problems.append(error)

    threads = [threading.Thread(target=neighbour, args=(index,)) for index in range(3)]
    for thread in threads:
        thread.start()
    begun.wait(30)
    reload(own.channel, new)
    for thread in threads:
        thread.join(60)
    assert not problems
    for kinds in seen:
        assert kinds == sorted(kinds, key=["old", "PARAMETERS_CHANGED", "new"].index)
        assert kinds.count("PARAMETERS_CHANGED") <= 1


def follow(own: Serving, tokens: list[int], old_rows: list[bytes], new_rows: list[bytes]) -> str:
    """Decode the tokens one by one; tell which model gave all rows, or why there are not all."""
    try:
        opened = prefill(own.stub, tokens[:1])
        got = rows(opened.logits)
        for token in tokens[1:]:
            got += rows(decode(own.stub, opened.session_id, [token]).logits)
    except grpc.RpcError as error:
        return failure_of(error).reason
    close(own.stub, opened.session_id)
    assert got in (old_rows, new_rows)
    return "old" if got == old_rows else "new"


def test_while_a_file_is_loaded_calls_go_on_and_a_second_reload_is_refused(
    own: Serving, new: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    entered, over = threading.Event(), threading.Event()

    def slowly(path: str, progress: object) -> object:
        entered.set()
        assert over.wait(30)
        return load(path)

    opened = prefill(own.stub, PROMPT).session_id
    monkeypatch.setattr(reloader, "load", slowly)
    first = AdminServiceStub(own.channel).ReloadModel.future(
        admin_pb2.ReloadModelRequest(path=new), metadata=BEARER
    )
    assert entered.wait(30)
    told = failure(lambda: reload(own.channel, new))
    assert (told.code, told.reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "RELOAD_RUNNING")
    assert (told.retry_seconds, told.pushback) == (1.0, "1000")
    assert rows(decode(own.stub, opened, [4]).logits)[0] == own.full_rows([*PROMPT, 4])[-1]
    over.set()
    assert first.result().name == "new"
    stale(lambda: decode(own.stub, opened, [5]))


def test_an_error_that_nobody_planned_is_scrubbed_and_changes_nothing(
    own: Serving, new: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(path: str, progress: object) -> None:
        raise SystemExit("/secret/path")

    with monkeypatch.context() as patch:
        patch.setattr(reloader, "load", broken)
        told = failure(lambda: reload(own.channel, new))
    assert own.loaded.model.parameters.revision == 0
    assert (told.code, "secret" in repr(told)) == (grpc.StatusCode.INTERNAL, False)
    assert reload(own.channel, new).name == "new"


def test_a_reload_that_nobody_waits_for_is_broken_off(
    own: Serving, new: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    entered, outcomes = threading.Event(), queue.SimpleQueue[BaseException | None]()
    reloading = Reloader.reload

    def after_the_cancel(self: Reloader, path: str, stop: StopSignal) -> object:
        entered.set()
        until(stop._cancelled.is_set)
        try:
            return reloading(self, path, stop)
        except BaseException as error:
            outcomes.put(error)
            raise

    monkeypatch.setattr(Reloader, "reload", after_the_cancel)
    call = AdminServiceStub(own.channel).ReloadModel.future(
        admin_pb2.ReloadModelRequest(path=new), metadata=BEARER
    )
    assert entered.wait(30)
    hang_up(call)
    assert isinstance(outcomes.get(timeout=30), CallCancelled)
    assert own.loaded.model.parameters.revision == 0


def test_a_draining_server_takes_no_other_weights(own: Serving, new: str) -> None:
    assert own.engine.drain(10)
    told = failure(lambda: reload(own.channel, new))
    assert (told.code, told.reason) == (grpc.StatusCode.UNAVAILABLE, "DRAINING")
    assert own.loaded.model.parameters.revision == 0


def test_a_gguf_model_can_take_the_values_of_a_safetensors_file(tmp_path: Path, log: Log) -> None:
    """Storage differs, the text side is left alone, and the bits are those of a fresh server."""
    gguf = str(write_llama(tmp_path / "tiny.gguf"))
    configuration = load(gguf).model.configuration
    path = write_model(tmp_path / "tuned.safetensors", seeded("tuned", configuration, 9))
    with administered(tmp_path, gguf) as served:
        reload(served.channel, path)
        with serving(load(path)) as other:
            assert score_rows(served.stub, [0, 6, 3]) == score_rows(other.stub, [0, 6, 3])
        assert reload(served.channel, gguf).parameters_digest_after == load(gguf).model.parameters.digest()
