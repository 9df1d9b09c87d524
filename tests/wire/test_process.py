"""The daemon as a process: its lines, its ends, its exit codes."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
import structlog
from grpc_health.v1 import health_pb2, health_pb2_grpc

from wire.calls import GREEDY, decode, failure, generate, ids, prefill, streaming
from wire.daemons import ZEROULP, Daemon, daemon, run
from wire.serving import until
from zeroulp.server.cli.serve import serve
from zeroulp.v1 import decoder_pb2 as pb

FIELDS = re.compile(r"zeroulp ready: model boundary-39, 1372 parameters, \d+ bytes, 2 threads")


def _unread(running: Daemon) -> Any:
    """Start a long stream and leave it unread: it cannot end before its reader goes on."""
    request = pb.GenerateRequest(
        token_ids=ids(0),
        max_new_tokens=400,
        sampling=GREEDY,
        logits_scope=pb.LOGITS_SCOPE_LAST,
        ignore_end_tokens=True,
    )
    call = streaming(running.stub, request)
    assert next(call).HasField("started")
    return call


def _health(running: Daemon) -> int:
    stub = health_pb2_grpc.HealthStub(running.channel)
    return int(stub.Check(health_pb2.HealthCheckRequest(), timeout=10).status)


def test_the_lines_can_be_read_by_a_script(boundary_daemon: Daemon) -> None:
    host, port = boundary_daemon.target.rsplit(":", 1)
    assert (host, int(port) > 1023) == ("127.0.0.1", True)
    assert FIELDS.fullmatch(boundary_daemon.ready)
    assert _health(boundary_daemon) == health_pb2.HealthCheckResponse.SERVING
    events = [line["event"] for line in boundary_daemon.log_lines]
    assert events[0] == "loaded"
    (loaded,) = (line for line in boundary_daemon.log_lines if line["event"] == "loaded")
    assert loaded["memory_bytes"] > 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_finishes_what_is_in_flight(number: signal.Signals) -> None:
    with daemon("glass-default") as running:
        opened = prefill(running.stub, [0, 5]).session_id
        stream = _unread(running)
        running.process.send_signal(number)
        until(lambda: _health(running) == health_pb2.HealthCheckResponse.NOT_SERVING)
        until(lambda: "draining" in running.log)
        for call in (
            lambda: prefill(running.stub, [0]),
            lambda: generate(running.stub, pb.GenerateRequest(token_ids=ids(0))),
            lambda: decode(running.stub, opened, [5]),
        ):
            told = failure(call)
            assert (told.code, told.reason) == (grpc.StatusCode.UNAVAILABLE, "DRAINING")
            assert (told.retry_seconds, told.pushback) == (1.0, "1000")
        assert running.process.poll() is None
        events = list(stream)
        assert len(events) == 401
        assert events[-1].finished.reason == pb.FINISH_REASON_LENGTH
        assert running.wait() == 0
        assert running.log_lines[-1]["event"] == "stopped"
        assert running.log_lines[-1]["all_calls_finished"] is True


def test_a_second_signal_ends_at_once() -> None:
    with daemon("glass-default") as running:
        stream = _unread(running)
        running.process.send_signal(signal.SIGINT)
        until(lambda: "draining" in running.log)
        started = time.monotonic()
        running.process.send_signal(signal.SIGINT)
        assert running.wait() == 128 + signal.SIGINT
        assert time.monotonic() - started < 2.0
        stream.cancel()


def test_the_grace_period_ends_it() -> None:
    with daemon("glass-default", "--grace", "0.5") as running:
        stream = _unread(running)
        started = time.monotonic()
        running.process.terminate()
        assert running.wait() == 0
        assert time.monotonic() - started < 6.0
        assert running.log_lines[-1]["all_calls_finished"] is False
        with pytest.raises(grpc.RpcError):
            list(stream)


def test_an_idle_daemon_stops_at_once() -> None:
    with daemon("boundary-39") as running:
        prefill(running.stub, [0])
        started = time.monotonic()
        running.process.terminate()
        assert running.wait() == 0
        assert time.monotonic() - started < 1.5


def _one_line(stderr: str) -> str:
    """Return the line that is for people; gRPC's core may have written its own before it."""
    (line,) = [line for line in stderr.splitlines() if not re.match(r"\{|E\d{4} ", line)]
    assert line.startswith("zeroulp: ")
    return line


def test_a_taken_port_is_an_error(boundary_daemon: Daemon) -> None:
    result = run("serve", "--model", "boundary-39", "--listen", boundary_daemon.target)
    assert result.returncode == 1
    assert boundary_daemon.target in _one_line(result.stderr)
    assert "listening" not in result.stdout


def test_an_address_that_is_not_this_machines() -> None:
    result = run("serve", "--model", "boundary-39", "--listen", "192.0.2.1:0")
    assert (result.returncode, "192.0.2.1:0" in _one_line(result.stderr)) == (1, True)


def test_a_port_taken_by_another_program() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        listen = f"127.0.0.1:{other.getsockname()[1]}"
        result = run("serve", "--model", "boundary-39", "--listen", listen)
    assert (result.returncode, listen in _one_line(result.stderr)) == (1, True)


@pytest.fixture
def _default_log() -> Iterator[None]:
    yield
    structlog.reset_defaults()


def _serve(*arguments: str) -> int:
    """Run the command in this process, up to where it is refused."""
    return serve(list(arguments))


@pytest.mark.usefixtures("_default_log")
def test_a_model_that_nobody_knows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _serve("--model", "no-such-model", "--listen", "127.0.0.1:0") == 1
    assert "no-such-model" in _one_line(capsys.readouterr().err)
    for name, data in (("empty.gguf", b""), ("text.gguf", b"hello " * 100), ("cut.gguf", b"GGUF\3\0\0\0")):
        path = tmp_path / name
        path.write_bytes(data)
        assert _serve("--model", str(path), "--listen", "127.0.0.1:0") == 1
        assert name in _one_line(capsys.readouterr().err)
    assert _serve("--model", str(tmp_path), "--listen", "127.0.0.1:0") == 1
    assert tmp_path.name in _one_line(capsys.readouterr().err)


@pytest.mark.parametrize(
    "arguments",
    [
        ["--frobnicate"],
        ["--model", "boundary-39", "--threads", "0"],
        ["--model", "boundary-39", "--threads", "two"],
        ["--model", "boundary-39", "--grace", "soon"],
        ["--model", "boundary-39", "--grace", "-1"],
        ["--model", "boundary-39", "--grace", "nan"],
        *(
            ["--model", "boundary-39", "--listen", listen]
            for listen in ("nowhere", ":0", "a:x", "a:99999", "a:-1")
        ),
        [],
    ],
)
def test_wrong_usage(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        _serve(*arguments)
    assert ended.value.code == 2
    written = capsys.readouterr().err
    assert "usage: zeroulp serve" in written
    assert "invalid _" not in written


def test_wrong_usage_is_exit_code_two() -> None:
    assert run("serve", "--model", "boundary-39", "--frobnicate").returncode == 2


def test_a_client_killed_in_the_middle_leaves_the_daemon_whole() -> None:
    with daemon("glass-default") as running:
        arguments = [ZEROULP, "generate", "--ids", "0,5", "--json", "--target", running.target]
        with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as client:
            assert client.stdout is not None
            client.stdout.readline()
            os.kill(client.pid, signal.SIGKILL)
        assert prefill(running.stub, [0, 5]).position == 2
        running.process.terminate()
        assert running.wait() == 0
