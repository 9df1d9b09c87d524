"""Record what torch's autograd makes of the same operations and models: tests/data/torch-gradients.json.

    PYTHONPATH=model:tests python tests/peers/record_gradients.py > tests/data/torch-gradients.json

Needs torch and numpy. It says each operation in torch's own words (a rotation is a product of complex
numbers, attention is ``scaled_dot_product_attention``), in float64.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

from peers.gradient_cases import HEAD_WIDTH, MODELS, OPERATIONS, Inputs
from zeroulp.model.configuration import Configuration
from zeroulp.model.initialisation import initialised

Answer = dict[str, Any]


def answers() -> dict[str, Answer]:
    """Return the gradients of every case as nested lists, by its name and the gradient's."""
    told = {name: _OPERATIONS[name.split(",")[0]](inputs) for name, inputs in OPERATIONS.items()}
    told |= {name: _model(*case) for name, case in MODELS.items()}
    return {name: {key: value.tolist() for key, value in answer.items()} for name, answer in told.items()}


def _leaf(values: Any) -> Any:
    import torch

    return torch.tensor(values, dtype=torch.float64, requires_grad=True)


def _back(output: Any, cotangent: Any, **leaves: Any) -> Answer:
    import torch

    output.backward(torch.tensor(cotangent))
    return {name: leaf.grad for name, leaf in leaves.items()}


def _linear(case: Inputs) -> Answer:
    x, w = _leaf(case["x"]), _leaf(case["w"])
    return _back(x @ w, case["dy"], dx=x, dw=w)


def _embedding(case: Inputs) -> Answer:
    import torch

    table = _leaf(case["table"])
    rows = torch.nn.functional.embedding(torch.tensor(case["ids"]), table)
    return _back(rows, case["dx"], dtable=table)


def _rms_norm(case: Inputs) -> Answer:
    x, gain = _leaf(case["x"]), _leaf(case["gain"])
    return _back(_normalised(x, gain, 1e-6), case["dy"], dx=x, dgain=gain)


def _normalised(x: Any, gain: Any, epsilon: float) -> Any:
    import torch

    return torch.nn.functional.rms_norm(x, gain.shape, gain, epsilon)


def _rotate(case: Inputs) -> Answer:
    x = _leaf(case["x"])
    return _back(_turned(x, case["positions"], HEAD_WIDTH, 1e4), case["dy"], dx=x)


def _turned(x: Any, positions: Any, head_width: int, base: float) -> Any:
    import torch

    pairs = torch.view_as_complex(x.reshape(len(x), -1, head_width // 2, 2))  # [rows, heads, pairs]
    frequencies = base ** (-2.0 * torch.arange(head_width // 2, dtype=torch.float64) / head_width)
    angles = torch.tensor(positions, dtype=torch.float64)[:, None, None] * frequencies
    return torch.view_as_real(pairs * torch.polar(torch.ones_like(angles), angles)).reshape(x.shape)


def _attention(case: Inputs) -> Answer:
    import torch

    q, k, v = _leaf(case["q"]), _leaf(case["k"]), _leaf(case["v"])
    positions = torch.arange(len(k))
    first, last = (torch.tensor(case[name])[:, None] for name in ("first", "last"))
    mixed = _attended(q, k, v, (positions >= first) & (positions < last), HEAD_WIDTH)
    return _back(mixed, case["dmixed"], dq=q, dk=k, dv=v)


def _attended(q: Any, k: Any, v: Any, visible: Any, head_width: int) -> Any:
    import torch

    q, k, v = (x.reshape(len(x), -1, head_width).transpose(0, 1)[None] for x in (q, k, v))
    mixed = torch.nn.functional.scaled_dot_product_attention(q, k, v, visible, enable_gqa=True)
    return mixed[0].transpose(0, 1).reshape(mixed.shape[2], -1)


def _swiglu(case: Inputs) -> Answer:
    import torch

    gate, up = _leaf(case["gate"]), _leaf(case["up"])
    return _back(torch.nn.functional.silu(gate) * up, case["dy"], dgate=gate, dup=up)


def _softmax(case: Inputs) -> Answer:
    import torch

    x = _leaf(case["x"])
    return _back(torch.softmax(x, -1), case["dp"], dx=x)


def _mean_nll(case: Inputs) -> Answer:
    import torch

    z, valid = _leaf(case["z"]), torch.tensor(case["valid"])
    loss = torch.nn.functional.cross_entropy(z[valid], torch.tensor(case["targets"])[valid])
    return {"loss": loss.detach(), **_back(loss, 1.0, dz=z)}


def _model(c: Configuration, seed: int, ids: list[int], targets: list[int]) -> Answer:
    import torch

    weights = {name: _leaf(values) for name, values in initialised(c, seed)}
    positions = torch.arange(len(ids))
    behind = positions[:, None] - positions
    visible = (behind >= 0) & (behind < (c.context_window or len(ids)))
    x = weights["token_embedding.weight"][torch.tensor(ids)]
    for layer in range(c.layers):
        own = {name.split(".", 2)[2]: w for name, w in weights.items() if name.startswith(f"blocks.{layer}.")}
        n = _normalised(x, own["attention_norm.gain"], c.rms_epsilon)
        q, k, v = (n @ own[f"attention.{name}.weight"] for name in ("query", "key", "value"))
        q, k = (_turned(y, range(len(ids)), c.head_width, c.rope_base) for y in (q, k))
        x = x + _attended(q, k, v, visible, c.head_width) @ own["attention.output.weight"]
        n = _normalised(x, own["ffn_norm.gain"], c.rms_epsilon)
        hidden = torch.nn.functional.silu(n @ own["ffn.gate.weight"]) * (n @ own["ffn.up.weight"])
        x = x + hidden @ own["ffn.down.weight"]
    h = _normalised(x, weights["final_norm.gain"], c.rms_epsilon)
    z = h @ weights["token_embedding.weight"].T
    loss = torch.nn.functional.cross_entropy(z, torch.tensor(targets))
    return {"loss": loss.detach(), **_back(loss, 1.0, **weights)}


_OPERATIONS: dict[str, Callable[[Inputs], Answer]] = {
    "linear": _linear,
    "embedding": _embedding,
    "rms_norm": _rms_norm,
    "rotate": _rotate,
    "attention": _attention,
    "swiglu": _swiglu,
    "softmax": _softmax,
    "mean_nll": _mean_nll,
}


def main() -> None:
    """Print the record."""
    import torch

    cases = {name: {key: _line(value) for key, value in case.items()} for name, case in answers().items()}
    text = json.dumps({"torch": torch.__version__, "cases": cases}, indent=1)
    sys.stdout.write(text.replace('"[', "[").replace(']"', "]") + "\n")


def _line(value: Any) -> Any:
    """Keep an array on one line of the indented file: a string, whose quotation marks are then removed."""
    return json.dumps(value) if isinstance(value, list) else value


if __name__ == "__main__":
    main()
