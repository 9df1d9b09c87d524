"""Reloading through the library and the command line, against a fake admin service."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import pytest
from google.rpc.error_details_pb2 import ErrorInfo

from unit.client.fake_decoder import rich
from unit.client.test_cli import Capture
from zeroulp.client import Client, ReloadedModel, Unauthenticated
from zeroulp.client.cli import main
from zeroulp.v1 import admin_pb2 as pb
from zeroulp.v1 import admin_pb2_grpc as pb_grpc

TOKEN = "s3cret-Token!"


class FakeAdmin(pb_grpc.AdminServiceServicer):
    def __init__(self) -> None:
        self.paths: list[str] = []

    def ReloadModel(
        self, request: pb.ReloadModelRequest, context: grpc.ServicerContext
    ) -> pb.ReloadModelResponse:
        if ("authorization", f"Bearer {TOKEN}") not in context.invocation_metadata():
            info = ErrorInfo(domain="zeroulp", reason="UNAUTHENTICATED")
            context.abort_with_status(rich(grpc.StatusCode.UNAUTHENTICATED, "no", info))
        self.paths.append(request.path)
        return pb.ReloadModelResponse(
            name="tuned",
            parameters_digest_before="aa",
            parameters_digest_after="bb",
            seconds=0.5,
            file_bytes=1000,
            parameter_bytes=2000,
        )


@pytest.fixture
def admin() -> FakeAdmin:
    return FakeAdmin()


@pytest.fixture
def target(admin: FakeAdmin) -> Iterator[str]:
    server = grpc.server(ThreadPoolExecutor(1))
    pb_grpc.add_AdminServiceServicer_to_server(admin, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        server.stop(None).wait()


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text(f" {TOKEN}\n")
    return path


@pytest.mark.parametrize("path", ["", "tuned.safetensors"])
def test_the_library(admin: FakeAdmin, target: str, path: str) -> None:
    with Client(target) as client:
        assert client.reload_model(TOKEN, path) == ReloadedModel("tuned", "aa", "bb", 0.5, 1000, 2000)
    assert admin.paths == [path]


def test_a_wrong_token_has_its_exception(admin: FakeAdmin, target: str) -> None:
    with Client(target) as client, pytest.raises(Unauthenticated, match="no"):
        client.reload_model("other")
    assert admin.paths == []


@pytest.mark.parametrize("token", ["é", "a\nb", "\x7f"])
def test_a_token_that_no_header_can_carry_is_not_sent(admin: FakeAdmin, target: str, token: str) -> None:
    with Client(target) as client, pytest.raises(ValueError, match="cannot be sent"):
        client.reload_model(token)


def test_the_command(admin: FakeAdmin, target: str, token_file: Path, capsys: Capture) -> None:
    common = ["--target", target, "--token-file", str(token_file)]
    assert main(["reload", *common]) == 0
    assert capsys.readouterr().out == (
        "tuned: 2,000 bytes of parameters in 0.500 s\n  digest before aa\n  digest after  bb\n"
    )
    assert main(["reload", *common, "tuned.gguf", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "name": "tuned",
        "parameters_digest_before": "aa",
        "parameters_digest_after": "bb",
        "seconds": 0.5,
        "file_bytes": 1000,
        "parameter_bytes": 2000,
    }
    assert admin.paths == ["", "tuned.gguf"]


def test_the_command_with_a_wrong_token(
    admin: FakeAdmin, target: str, token_file: Path, capsys: Capture
) -> None:
    token_file.write_text("other")
    assert main(["reload", "--target", target, "--token-file", str(token_file)]) == 1
    assert capsys.readouterr() == ("", "zeroulp: UNAUTHENTICATED: no\n")


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (None, "cannot be read: No such file"),
        (b"", "holds no token"),
        (b"\xff", "more than ASCII"),
        (b"a\nb", "no token"),
    ],
)
def test_a_token_file_without_a_token_asks_nobody(
    admin: FakeAdmin, target: str, token_file: Path, capsys: Capture, content: bytes | None, told: str
) -> None:
    token_file.unlink() if content is None else token_file.write_bytes(content)
    assert main(["reload", "--target", target, "--token-file", str(token_file)]) == 1
    assert told in capsys.readouterr().err
    assert admin.paths == []


def test_the_token_file_is_needed(target: str, capsys: Capture) -> None:
    with pytest.raises(SystemExit) as left:
        main(["reload", "--target", target])
    assert left.value.code == 2
    assert "--token-file" in capsys.readouterr().err
