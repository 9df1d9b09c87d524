"""Stands for ``zeroulp`` in the demo: ``pull`` succeeds, ``serve`` serves the fake until SIGTERM.

Faults are asked for by the environment: FAKE_PULL_FAILS, FAKE_SERVE_FAILS, FAKE_CORRUPT, FAKE_EXIT_CODE.
"""

from __future__ import annotations

import os
import signal
import sys
import threading

from unit.client.fake_decoder import FakeDecoder, serving


def main(arguments: list[str]) -> int:
    print(f"fake {arguments[0]}", file=sys.stderr, flush=True)
    if arguments[0] == "pull":
        return 3 if "FAKE_PULL_FAILS" in os.environ else 0
    assert arguments == ["serve", "--model", arguments[2], "--listen", "127.0.0.1:0"]
    if "FAKE_SERVE_FAILS" in os.environ:
        print("the weights are on fire", file=sys.stderr)
        return 4
    decoder = FakeDecoder()
    decoder.corrupt_scores = "FAKE_CORRUPT" in os.environ
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    with serving(decoder) as target:
        print(f"zeroulp listening on {target}\nzeroulp ready: model {arguments[2]}", flush=True)
        stop.wait()
        print("fake stops", file=sys.stderr, flush=True)
    return int(os.environ.get("FAKE_EXIT_CODE", "0"))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
