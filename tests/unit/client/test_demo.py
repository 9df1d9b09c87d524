"""The demo against a program that stands for ``zeroulp``, with real processes, signals and gRPC."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from unit.client.test_cli import Capture
from unit.client.test_generation import continued
from zeroulp.client.cli import daemon, demo, main

FAKE = (sys.executable, "-m", "unit.client.fake_program")
TESTS = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def fake_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "PROGRAM", FAKE)
    monkeypatch.setenv("PYTHONPATH", str(TESTS), prepend=os.pathsep)


def test_the_demo_streams_checks_and_stops(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--max-new-tokens", "6"]) == 0
    out, err = capfd.readouterr()
    text = bytes(continued(demo.PROMPT, 6)).decode()
    length = len(demo.PROMPT) + 6
    assert re.fullmatch(
        rf"""daemon at 127\.0\.0\.1:\d+: model smollm2-135m

{text}

6 tokens, [\d.]+ tok/s
the session's work: {2 * length} cache appends, {10 * length} attention score values, {length} tokens
7 decoded logit rows compared with the full forward: 0 bits differ
the daemon has stopped
""",
        out,
    )
    assert err == "fake pull\n", "the daemon's log is not shown"


def test_bits_that_differ_are_counted_and_fail(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.setenv("FAKE_CORRUPT", "1")
    assert main(["demo", "--max-new-tokens", "2"]) == 1
    assert "3 decoded logit rows compared with the full forward: 3 bits differ" in capsys.readouterr().out


def test_a_pull_that_fails_falls_back_loudly(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.setenv("FAKE_PULL_FAILS", "1")
    assert main(["demo", "--max-new-tokens", "1"]) == 0
    out, err = capsys.readouterr()
    assert "model glass-default" in out
    assert "smollm2-135m could not be pulled (exit code 3; the reason is above)." in err
    assert "**********" in err


def test_a_daemon_that_does_not_start_shows_its_log(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.setenv("FAKE_SERVE_FAILS", "1")
    assert main(["demo"]) == 1
    err = capsys.readouterr().err
    assert "The daemon's log ends with:\nfake serve\nthe weights are on fire\n" in err
    assert err.endswith("zeroulp: the daemon ended before it was ready, with exit code 4\n")


def test_a_daemon_that_stops_badly_fails(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.setenv("FAKE_EXIT_CODE", "5")
    assert main(["demo", "--max-new-tokens", "1"]) == 1
    assert capsys.readouterr().out.endswith("0 bits differ\nthe daemon stopped with exit code 5\n")


def test_nothing_to_compare_is_a_failure(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "_newest_row", lambda session: [])
    assert main(["demo", "--max-new-tokens", "0"]) == 1
    assert "zeroulp: no token was generated, so there is nothing to compare" in capsys.readouterr().err


def test_a_daemon_that_says_nothing_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    silent = tmp_path / "silent.py"
    silent.write_text("import sys, time\nif sys.argv[1] == 'serve': time.sleep(60)\n")
    monkeypatch.setattr(demo, "PROGRAM", (sys.executable, str(silent)))
    monkeypatch.setattr(daemon, "START_SECONDS", 0.2)
    assert main(["demo"]) == 1
    assert "zeroulp: the daemon was not ready within 0.2 s" in capsys.readouterr().err


def test_a_daemon_deaf_to_sigterm_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    deaf = tmp_path / "deaf.py"
    deaf.write_text(
        textwrap.dedent("""\
            import signal, sys, time
            if sys.argv[1] == 'serve':
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
                print("zeroulp listening on 127.0.0.1:1", flush=True)
                print("zeroulp ready: deaf", flush=True)
                time.sleep(60)
            """)
    )
    monkeypatch.setattr(demo, "PROGRAM", (sys.executable, str(deaf)))
    monkeypatch.setattr(daemon, "STOP_SECONDS", 0.2)
    assert main(["demo"]) == 1
    assert "no server answers at 127.0.0.1:1" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_a_demo_broken_off_leaves_no_daemon(number: signal.Signals, code: int) -> None:
    script = (
        "import sys; from zeroulp.client.cli import demo, main;"
        f" demo.PROGRAM = {FAKE!r}; sys.exit(main(['demo', '--max-new-tokens', '1000000']))"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as shown:
        assert shown.stdout is not None
        target = shown.stdout.readline().split()[2].decode().rstrip(":")
        shown.stdout.read(len(demo.PROMPT) + 10)
        shown.send_signal(number)
        shown.stdout.read()
        assert shown.wait(20) == code
    assert main(["health", "--target", target]) == 1


def test_loading_is_shown_at_a_terminal(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    with daemon.running_daemon(FAKE, "m"):
        # What it says once it is ready is the log's only.
        pass
    assert capfd.readouterr().err == "fake serve\n"
