"""No method of the admin service runs without the token, and a refusal tells nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import pytest

from wire.admins import BEARER, TOKEN, administered, reload, write_model, write_token
from wire.calls import Failure, failure, prefill
from wire.daemons import run
from wire.logs import Log, kept_log
from wire.serving import PATIENCE, Serving, serving
from zeroulp.model.loading import load
from zeroulp.server.engine.limits import Limits
from zeroulp.server.grpc_server import SPARE_THREADS
from zeroulp.server.reloader import Reloader
from zeroulp.server.token_file import TokenFile
from zeroulp.server.wire.service import DecoderService
from zeroulp.v1 import admin_pb2 as pb
from zeroulp.v1 import decoder_pb2
from zeroulp.v1.admin_pb2_grpc import AdminServiceStub

METHODS = [method.name for method in pb.DESCRIPTOR.services_by_name["AdminService"].methods]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("admission")


@pytest.fixture(scope="module")
def log() -> Iterator[Log]:
    with kept_log() as log:
        yield log


@pytest.fixture(scope="module")
def own(folder: Path, log: Log) -> Iterator[Serving]:
    path = write_model(folder / "model.safetensors", load("boundary-39"))
    with administered(folder, path) as served:
        yield served


@pytest.fixture
def untouched(own: Serving, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No work is done while the test runs."""

    def work(*arguments: object) -> None:
        pytest.fail("somebody was admitted")

    with monkeypatch.context() as patch:
        patch.setattr(Reloader, "reload", work)
        yield
    assert own.loaded.model.parameters.revision == 0


def call(
    serving: Serving, method: str, metadata: tuple[tuple[str, str], ...] | None, **fields: Any
) -> object:
    types = pb.DESCRIPTOR.services_by_name["AdminService"].methods_by_name[method]
    stub = getattr(AdminServiceStub(serving.channel), method)
    answer = stub(getattr(pb, types.input_type.name)(**fields), metadata=metadata, timeout=20)
    return list(answer) if types.server_streaming else answer


def refused(asked: Callable[[], object]) -> Failure:
    told = failure(asked)
    assert (told.code, told.reason) == (grpc.StatusCode.UNAUTHENTICATED, "UNAUTHENTICATED")
    assert (told.metadata, told.fields, told.retry_seconds, told.pushback) == ({}, [], None, None)
    return told


WRONG: dict[str, tuple[tuple[str, str], ...]] = {
    "none": (),
    "empty": (("authorization", ""),),
    "no scheme": (("authorization", TOKEN),),
    "another scheme": (("authorization", f"Basic {TOKEN}"),),
    "no token": (("authorization", "Bearer "),),
    "a part of it": (("authorization", f"Bearer {TOKEN[:-1]}"),),
    "more than it": (("authorization", f"Bearer {TOKEN}x"),),
    "in capitals": (("authorization", f"Bearer {TOKEN.upper()}"),),
    "twice": BEARER * 2,
    "beside a wrong one": (("authorization", "Bearer x"), *BEARER),
    "elsewhere": (("token", TOKEN),),
}


@pytest.mark.usefixtures("untouched")
@pytest.mark.parametrize("metadata", WRONG.values(), ids=WRONG)
@pytest.mark.parametrize("method", METHODS)
def test_every_method_refuses_every_other_token(
    own: Serving, method: str, metadata: tuple[tuple[str, str], ...]
) -> None:
    refused(lambda: call(own, method, metadata))


@pytest.mark.usefixtures("untouched")
def test_a_refusal_is_the_same_whatever_was_asked_and_given(own: Serving, folder: Path) -> None:
    paths = ["", str(folder / "model.safetensors"), str(folder / "absent.safetensors"), "boundary-39"]
    told = [
        repr(refused(partial(call, own, "ReloadModel", metadata, path=path)))
        for metadata in WRONG.values()
        for path in paths
    ]
    assert len(set(told)) == 1
    assert not any(word in repr(told) for word in (str(folder), TOKEN, "boundary"))


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
def test_the_scheme_has_no_case(own: Serving, scheme: str) -> None:
    answer = call(own, "ReloadModel", (("authorization", f"{scheme} {TOKEN}"),))
    assert isinstance(answer, pb.ReloadModelResponse)


def test_another_token_in_the_file_holds_at_once(own: Serving, folder: Path) -> None:
    write_token(folder / "token", "another")
    try:
        refused(lambda: reload(own.channel))
        assert call(own, "ReloadModel", (("authorization", "Bearer another"),))
    finally:
        write_token(folder / "token")
    assert reload(own.channel).name == "model"


def test_a_token_file_that_was_opened_to_others_admits_nobody(own: Serving, folder: Path, log: Log) -> None:
    before = len(log.lines("nobody is admitted"))
    (folder / "token").chmod(0o644)
    try:
        assert str(folder) not in repr(refused(lambda: reload(own.channel)))
    finally:
        (folder / "token").chmod(0o600)
    (line,) = log.lines("nobody is admitted")[before:]
    assert "open to all users" in line["reason"]
    assert TOKEN not in log.text


def test_without_a_token_file_there_is_no_admin_service(boundary: Serving) -> None:
    for method in METHODS:
        with pytest.raises(grpc.RpcError) as caught:
            call(boundary, method, BEARER)
        assert isinstance(caught.value, grpc.Call)
        assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED


def test_decoder_methods_need_no_token(own: Serving) -> None:
    assert prefill(own.stub, [0]).position == 1


def test_calls_that_hold_the_wire_do_not_shut_the_admin_out(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entered, over = threading.Semaphore(0), threading.Event()

    def held(self: DecoderService, request: object, context: object) -> decoder_pb2.GetModelResponse:
        entered.release()
        over.wait(PATIENCE)
        return decoder_pb2.GetModelResponse()

    monkeypatch.setattr(DecoderService, "GetModel", held)
    limits, token = Limits(cache_bytes=2**20, max_calls=2), TokenFile(write_token(folder / "token"))
    with serving(load("boundary-39"), limits, token) as served:
        threads = limits.max_calls + SPARE_THREADS
        calls = [served.stub.GetModel.future(decoder_pb2.GetModelRequest()) for _ in range(threads + 1)]
        try:
            for _ in range(threads):
                assert entered.acquire(timeout=PATIENCE)
            refused(lambda: call(served, "ReloadModel", ()))
            assert reload(served.channel, "boundary-39").name == "boundary-39"
        finally:
            over.set()
        for waiting in calls:
            waiting.result()


@pytest.mark.parametrize(
    ("content", "mode", "told"),
    [("", 0o600, "is empty"), ("secret", 0o644, "open to all users"), (None, 0, "No such file")],
)
def test_the_daemon_does_not_start_with_an_unfit_token_file(
    tmp_path: Path, content: str | None, mode: int, told: str
) -> None:
    path = tmp_path / "token"
    if content is not None:
        path.write_text(content)
        path.chmod(mode)
    result = run(
        "serve", "--model", "boundary-39", "--listen", "127.0.0.1:0", "--admin-token-file", str(path)
    )
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.startswith("zeroulp: the token file ")
    assert told in result.stderr
