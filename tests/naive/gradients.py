"""What goes back through each operation, term by term from its definition, on lists of floats."""

from __future__ import annotations

from collections.abc import Sequence

from naive import elementary
from naive.model import Matrix, Row, softmax


def dot(a: Sequence[float], b: Sequence[float]) -> float:
    total = 0.0
    for left, right in zip(a, b, strict=True):
        total = total + left * right
    return total


def column(x: Matrix, index: int) -> Row:
    return [row[index] for row in x]


def linear_input(dy: Matrix, w: Matrix) -> Matrix:
    return [[dot(row, weights) for weights in w] for row in dy]


def linear_weight(x: Matrix, dy: Matrix) -> Matrix:
    return [[dot(column(x, k), column(dy, n)) for n in range(len(dy[0]))] for k in range(len(x[0]))]


def embedding_weight(ids: Sequence[int], dx: Matrix, vocabulary_size: int) -> Matrix:
    table = [[0.0] * len(dx[0]) for _ in range(vocabulary_size)]
    for token, row in zip(ids, dx, strict=True):
        for d, value in enumerate(row):
            table[token][d] = table[token][d] + value
    return table


def rms_norm(x: Matrix, gain: Row, epsilon: float, dy: Matrix) -> tuple[Matrix, Row]:
    D, dx, dgain = len(gain), [], [0.0] * len(gain)
    for row, given in zip(x, dy, strict=True):
        inverse = elementary.exp(elementary.log(dot(row, row) / D + epsilon) * -0.5)
        n = [value * inverse for value in row]
        g = [value * factor for value, factor in zip(given, gain, strict=True)]
        t = dot(g, n) / D
        dx.append([(g[d] - n[d] * t) * inverse for d in range(D)])
        dgain = [total + given[d] * n[d] for d, total in enumerate(dgain)]
    return dx, dgain


def rotate(dy: Row, cosines: Row, sines: Row) -> Row:
    out = []
    for start in range(0, len(dy), 2 * len(cosines)):
        for p, (cosine, sine) in enumerate(zip(cosines, sines, strict=True)):
            left, right = dy[start + 2 * p], dy[start + 2 * p + 1]
            out.append(left * cosine + right * sine + 0.0)
            out.append(right * cosine - left * sine + 0.0)
    return out


def sigmoid(g: float) -> float:
    if g >= 0.0:
        return 1.0 / (1.0 + elementary.exp(-g))
    return elementary.exp(g) / (1.0 + elementary.exp(g))


def swiglu(g: float, u: float, dy: float) -> tuple[float, float]:
    s, c = sigmoid(g), sigmoid(-g)
    return (dy * u) * (s * (1.0 + g * c)), dy * (g * s)


def softmax_gradient(p: Row, dp: Row) -> Row:
    t = dot(p, dp)
    return [p[j] * (dp[j] - t) for j in range(len(p))]


def mean_nll(z: Matrix, targets: Sequence[int], valid: Sequence[bool], dloss: float) -> Matrix:
    share, dz = dloss / sum(valid), []
    for row, target, counts in zip(z, targets, valid, strict=True):
        p = softmax(row) if counts else []
        # a masked row has no term at all
        dz.append([(p[v] - (v == target)) * share if counts else 0.0 for v in range(len(row))])
    return dz


def attention(
    q: Matrix,
    k: Matrix,
    v: Matrix,
    h: int,
    first: Sequence[int],
    last: Sequence[int],
    scale: float,
    do: Matrix,
) -> tuple[Matrix, Matrix, Matrix]:
    dq, dk, dv = ([[0.0] * len(x[0]) for _ in x] for x in (q, k, v))
    heads, group = len(q[0]) // h, len(q[0]) // len(k[0])
    for t in range(len(q)):
        visible = range(first[t], last[t])
        for head in range(heads):
            own = slice(head * h, (head + 1) * h)
            kv = slice(head // group * h, (head // group + 1) * h)
            p = softmax([dot(q[t][own], k[j][kv]) * scale for j in visible])
            ds = softmax_gradient(p, [dot(do[t][own], v[j][kv]) for j in visible])
            dq[t][own] = [dot(ds, [k[j][kv][f] for j in visible]) * scale for f in range(h)]
            # for each key the rows come position by position, and head by head within one
            for j, share, slope in zip(visible, p, ds, strict=True):
                dk[j][kv] = [total + slope * q[t][own][f] for f, total in enumerate(dk[j][kv])]
                dv[j][kv] = [total + share * do[t][own][f] for f, total in enumerate(dv[j][kv])]
    return dq, [[value * scale for value in row] for row in dk], dv
