"""Record what transformers in float64 makes of the real model: tests/data/transformers-f64.json.

    python tests/peers/record_transformers.py MODEL.gguf > tests/data/transformers-f64.json

Needs torch, transformers, gguf and accelerate. Its RoPE tables and norms are computed in float32, so its
logits are some 1e-5 away from exact ones.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

PROMPTS = [
    "The capital of France is",
    "def fibonacci(n):\n    ",
    "Zürich, 東京 and Kraków are",
    "<|im_start|>user\nWhat is 2 + 2?<|im_end|>\n<|im_start|>assistant\n",
]
NEW_TOKENS = 24


def main() -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, __version__

    folder, file = os.path.split(sys.argv[1])
    model = AutoModelForCausalLM.from_pretrained(folder, gguf_file=file, dtype=torch.float64).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=file)
    cases: list[dict[str, Any]] = []
    with torch.inference_mode():
        for prompt in PROMPTS:
            ids = tokenizer(prompt).input_ids
            for _ in range(NEW_TOKENS):
                ids.append(int(model(torch.tensor([ids])).logits[0, -1].argmax()))
            logits = model(torch.tensor([ids])).logits[0]
            told = torch.log_softmax(logits[:-1], -1).gather(1, torch.tensor(ids[1:])[:, None])[:, 0]
            cases.append(
                {
                    "prompt": prompt,
                    "prompt_tokens": len(ids) - NEW_TOKENS,
                    "ids": ids,
                    "log_probabilities": told.tolist(),
                    "last_logits_first16": logits[-1, :16].tolist(),
                }
            )
    print(json.dumps({"transformers": __version__, "torch": torch.__version__, "cases": cases}, indent=1))


if __name__ == "__main__":
    main()
