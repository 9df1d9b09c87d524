"""Another peer's side of the benchmark: llama.cpp in its own quantised arithmetic, on the same file.

One command a line on stdin, seconds on stdout. Run by bench.py with a Python that has llama-cpp-python.
"""

from __future__ import annotations

import random
import sys
import time
from typing import Any

MOST_ROWS = 32
POSITIONS = MOST_ROWS * 640  # llama.cpp shares them out evenly


def main() -> None:
    import llama_cpp

    path, threads = sys.argv[1], int(sys.argv[2])
    random.seed(0)
    model = llama_cpp.Llama(model_path=path, n_ctx=32, verbose=False)
    parameters = llama_cpp.llama_context_default_params()
    parameters.n_ctx, parameters.n_batch, parameters.n_seq_max = POSITIONS, 2048, MOST_ROWS
    parameters.n_threads = parameters.n_threads_batch = threads
    context = llama_cpp.llama_init_from_model(model._model.model, parameters)
    batch = llama_cpp.llama_batch_init(2048, 0, MOST_ROWS)

    def step(position: int, count: int, rows: int) -> float:
        """Take the next ``count`` random tokens of each row; logits of the last ones."""
        batch.n_tokens = rows * count
        for slot in range(rows * count):
            row, offset = divmod(slot, count)
            batch.token[slot], batch.pos[slot] = random.randrange(100, 49000), position + offset
            batch.n_seq_id[slot], batch.seq_id[slot][0] = 1, row
            batch.logits[slot] = offset == count - 1
        start = time.perf_counter()
        if llama_cpp.llama_decode(context, batch) != 0:
            raise RuntimeError("llama_decode failed")
        llama_cpp.llama_get_logits_ith(context, rows * count - 1)[0]
        return time.perf_counter() - start

    def cleared(run: Any) -> float:
        llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(context), True)
        return float(run())

    def prefill(tokens: int, rows: int) -> float:
        return cleared(lambda: step(0, tokens, rows))

    def decode(tokens: int, rows: int) -> float:
        def run() -> float:
            step(0, 32, rows)
            return sum(step(32 + index, 1, rows) for index in range(tokens))

        return cleared(run)

    print("ready", flush=True)
    for line in sys.stdin:
        command, tokens, rows = line.split()
        print({"prefill": prefill, "decode": decode}[command](int(tokens), int(rows)), flush=True)


if __name__ == "__main__":
    main()
