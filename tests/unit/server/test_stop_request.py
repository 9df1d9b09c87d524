"""Signals, in processes of their own: they change what a process does with them."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

TO_ANOTHER_THREAD = """
import signal, sys, threading, time
from zeroulp.server.stop_request import StopRequest

request = StopRequest()
print("before:", request.is_set())
number = int(sys.argv[1])
kill = lambda: (time.sleep(0.2), signal.pthread_kill(threading.get_ident(), number))
threading.Thread(target=kill).start()
request.wait()
print("stopped")
"""

TWICE = """
import os, signal, sys, time
from zeroulp.server.stop_request import StopRequest

request = StopRequest()
number = int(sys.argv[1])
os.kill(os.getpid(), number)
request.wait()
print("asked once", flush=True)
os.kill(os.getpid(), number)
time.sleep(30)
print("still here")
"""

FROM_WITHIN = """
import threading
from zeroulp.server.stop_request import StopRequest

request = StopRequest()
threading.Timer(0.1, request.set).start()
request.wait()
print("stopped")
"""


def _run(script: str, *arguments: str) -> tuple[int, str]:
    command = [sys.executable, "-c", script, *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert not ended.stderr
    return ended.returncode, ended.stdout


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_that_another_thread_receives_is_not_lost(number: signal.Signals) -> None:
    assert _run(TO_ANOTHER_THREAD, str(int(number))) == (0, "before: False\nstopped\n")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_second_signal_ends_the_process(number: signal.Signals) -> None:
    assert _run(TWICE, str(int(number))) == (128 + number, "asked once\n")


def test_the_process_can_ask_itself() -> None:
    assert _run(FROM_WITHIN) == (0, "stopped\n")
