"""The peer's side of the benchmark: transformers in float64, one command a line on stdin, seconds on stdout.

Run by bench.py with a Python that has torch, transformers, gguf and accelerate.
"""

from __future__ import annotations

import os
import sys
import time
from typing import Any


def main() -> None:
    import torch
    from transformers import AutoModelForCausalLM

    path, threads = sys.argv[1], int(sys.argv[2])
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    folder, file = os.path.split(path)
    model = AutoModelForCausalLM.from_pretrained(folder, gguf_file=file, dtype=torch.float64).eval()
    vocabulary = model.config.vocab_size

    def timed(call: Any) -> Any:
        start = time.perf_counter()
        result = call()
        return result, time.perf_counter() - start

    def prefill(tokens: int, rows: int) -> float:
        ids = torch.randint(0, vocabulary, (rows, tokens))
        return float(timed(lambda: model(ids, use_cache=True, logits_to_keep=1))[1])

    def decode(tokens: int, rows: int) -> float:
        out = model(torch.randint(0, vocabulary, (rows, 32)), use_cache=True)
        seconds = 0.0
        for _ in range(tokens):
            ids, cache = out.logits[:, -1:].argmax(-1), out.past_key_values
            out, spent = timed(lambda ids=ids, cache=cache: model(ids, past_key_values=cache, use_cache=True))
            seconds += spent
        return seconds

    print("ready", flush=True)
    with torch.inference_mode():
        for line in sys.stdin:
            command, tokens, rows = line.split()
            print({"prefill": prefill, "decode": decode}[command](int(tokens), int(rows)), flush=True)


if __name__ == "__main__":
    main()
