"""A scalar full forward, term by term from the definition, on lists of floats.

The elementary functions are MPFR's, correctly rounded: the C library's would give other bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from naive import elementary
from zeroulp.model.configuration import Configuration

Row = list[float]
Matrix = list[Row]
Weights = Callable[[str], list]  # type: ignore[type-arg]


def dot(x: Row, w: Matrix, n: int) -> float:
    total = 0.0
    for k in range(len(x)):
        total = total + x[k] * w[k][n]
    return total


def linear(x: Row, w: Matrix) -> Row:
    return [dot(x, w, n) for n in range(len(w[0]))]


def rms_norm(x: Row, gain: Row, epsilon: float) -> Row:
    total = 0.0
    for value in x:
        total = total + value * value
    inverse = elementary.exp(elementary.log(total / len(x) + epsilon) * -0.5)
    return [(value * inverse) * g for value, g in zip(x, gain, strict=True)]


def rope(x: Row, position: int, base: float, h: int) -> Row:
    out = []
    for start in range(0, len(x), h):
        for p in range(h // 2):
            angle = position * elementary.power(base, -2 * p / h)
            left, right = x[start + 2 * p], x[start + 2 * p + 1]
            out.append(left * elementary.cos(angle) - right * elementary.sin(angle) + 0.0)
            out.append(left * elementary.sin(angle) + right * elementary.cos(angle) + 0.0)
    return out


def softmax(s: Row) -> Row:
    m = max(s)
    first = s.index(m)
    e = [elementary.exp(value - m) for value in s]
    tail = 0.0
    for j, value in enumerate(e):
        if j != first:
            tail = tail + value
    return [value / (1.0 + tail) for value in e]


def attend(c: Configuration, q: Row, keys: Matrix, values: Matrix, first: int) -> Row:
    h = c.head_width
    out = []
    for head in range(c.heads):
        kv = head // (c.heads // c.kv_heads)
        scores = []
        for j in range(first, len(keys)):
            total = 0.0
            for f in range(h):
                total = total + q[head * h + f] * keys[j][kv * h + f]
            scores.append(total * (1.0 / math.sqrt(h)))
        p = softmax(scores)
        for f in range(h):
            total = 0.0
            for j in range(len(p)):
                total = total + p[j] * values[first + j][kv * h + f]
            out.append(total)
    return out


def silu(g: float) -> float:
    if g >= 0.0:
        return g * (1.0 / (1.0 + elementary.exp(-g)))
    e = elementary.exp(g)
    return g * (e / (1.0 + e))


def forward(c: Configuration, weights: Weights, ids: Sequence[int]) -> Matrix:
    """Return the logits ``[T][V]``."""
    table = weights("token_embedding.weight")
    xs = [list(table[token]) for token in ids]
    for layer in range(c.layers):

        def own(name: str, layer: int = layer) -> list:  # type: ignore[type-arg]
            return weights(f"blocks.{layer}.{name}")

        keys: Matrix = []
        values: Matrix = []
        for t, x in enumerate(xs):
            n = rms_norm(x, own("attention_norm.gain"), c.rms_epsilon)
            q = rope(linear(n, own("attention.query.weight")), t, c.rope_base, c.head_width)
            keys.append(rope(linear(n, own("attention.key.weight")), t, c.rope_base, c.head_width))
            values.append(linear(n, own("attention.value.weight")))
            first = 0 if c.context_window is None else max(0, t - c.context_window + 1)
            mixed = attend(c, q, keys, values, first)
            x = [a + b for a, b in zip(x, linear(mixed, own("attention.output.weight")), strict=True)]
            n = rms_norm(x, own("ffn_norm.gain"), c.rms_epsilon)
            gate, up = linear(n, own("ffn.gate.weight")), linear(n, own("ffn.up.weight"))
            hidden = [silu(g) * u for g, u in zip(gate, up, strict=True)]
            xs[t] = [a + b for a, b in zip(x, linear(hidden, own("ffn.down.weight")), strict=True)]
    out = []
    for x in xs:
        n = rms_norm(x, weights("final_norm.gain"), c.rms_epsilon)
        row = []
        for embedded in table:
            total = 0.0
            for d in range(len(n)):
                total = total + n[d] * embedded[d]
            row.append(total)
        out.append(row)
    return out


def mean_nll(logits: Matrix, targets: Sequence[int]) -> float:
    total = 0.0
    for z, target in zip(logits, targets, strict=True):
        m = max(z)
        first = z.index(m)
        tail = 0.0
        for v, value in enumerate(z):
            if v != first:
                tail = tail + elementary.exp(value - m)
        total = total + ((m - z[target]) + elementary.log1p(tail))
    return total / len(targets)
