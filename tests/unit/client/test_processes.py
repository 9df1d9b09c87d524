"""What only a process of its own shows: pipes that break, signals, terminals."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from unit.client.fake_decoder import FakeDecoder
from unit.client.test_chat import answer_to

PROGRAM = (sys.executable, "-m", "zeroulp.client")


@contextmanager
def running(*arguments: str, stdin: int = subprocess.DEVNULL) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(
        [*PROGRAM, *arguments], stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def read(process: subprocess.Popen[bytes], count: int) -> bytes:
    assert process.stdout is not None
    return process.stdout.read(count)


def stderr_of(process: subprocess.Popen[bytes]) -> bytes:
    assert process.stderr is not None
    return process.stderr.read()


def test_tokens_are_on_stdout_as_they_come_and_ctrl_c_cancels(decoder: FakeDecoder, target: str) -> None:
    decoder.stall_after = 2
    with running("generate", "hey", "--target", target) as process:
        assert len(read(process, 2)) == 2, "before the third token is made"
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 130
        assert stderr_of(process) == b""
    assert decoder.ended.wait(10)


def test_a_reader_who_has_seen_enough_ends_the_generation_in_silence(
    decoder: FakeDecoder, target: str
) -> None:
    arguments = ("generate", "hey", "--max-new-tokens", "100000", "--target", target)
    with running(*arguments) as process:
        assert process.stdout is not None
        read(process, 3)
        process.stdout.close()
        assert process.wait(20) == 141
        assert stderr_of(process) == b""
    assert decoder.ended.wait(10)


def test_a_narrow_encoding_escapes_what_it_has_not(decoder: FakeDecoder, target: str) -> None:
    decoder.tail = "é"
    done = subprocess.run(
        [*PROGRAM, "generate", "hey", "--max-new-tokens", "0", "--target", target],
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        stdout=subprocess.PIPE,
        check=True,
    )
    assert done.stdout == b"\\xe9\n"


def test_at_a_terminal_ctrl_c_breaks_off_an_answer_and_ctrl_d_ends(decoder: FakeDecoder, target: str) -> None:
    decoder.stall_after = 2
    terminal, slave = pty.openpty()
    try:
        with running("chat", "--max-new-tokens", "3", "--target", target, stdin=slave) as process:
            os.write(terminal, b"Hi\n")
            first = answer_to("<user>Hi\x03<assistant>", 2)
            assert read(process, 2).decode() == first
            process.send_signal(signal.SIGINT)
            assert read(process, 1) == b"\n"
            assert decoder.ended.wait(10)
            decoder.stall_after = None
            os.write(terminal, b"Bye\n")
            assert len(read(process, 4)) == 4
            os.write(terminal, b"\x04")
            assert process.wait(20) == 0
            assert stderr_of(process).strip() == b""
    finally:
        os.close(terminal)
        os.close(slave)
    assert decoder.sessions == {}
