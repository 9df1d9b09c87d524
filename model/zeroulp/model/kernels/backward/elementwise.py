"""Gradients of operations in which every output depends on the inputs at its own place."""

from __future__ import annotations

from numba.np.numpy_support import carray

from zeroulp.model.kernels.arrays import F64
from zeroulp.model.kernels.elementary import exp_into
from zeroulp.model.kernels.elementary_bits import BLOCK, stack_buffer
from zeroulp.model.kernels.elementwise import sigmoid
from zeroulp.model.kernels.jit import kernel


@kernel
def swiglu_gradient_part(gate: F64, up: F64, dy: F64, dgate: F64, dup: F64, part: int, parts: int) -> None:
    """Fill one part's share of dgate and dup for flat arrays of one size.

    ``s = sigmoid(g)`` and ``c = sigmoid(-g)``, which is ``1 - s`` without its cancellation;
    ``dup = dy * (g * s)``; ``dgate = (dy * u) * (s * (1 + g * c))``.
    """
    last = gate.size * (part + 1) // parts
    e = carray(stack_buffer(), BLOCK)
    for start in range(gate.size * part // parts, last, BLOCK):
        count = min(BLOCK, last - start)
        for i in range(count):
            e[i] = -abs(gate[start + i])
        exp_into(e, 0, count, 0.0, e)
        for i in range(count):
            g, d = gate[start + i], dy[start + i]
            s, c = sigmoid(g, e[i]), sigmoid(-g, e[i])
            dup[start + i] = d * (g * s)
            dgate[start + i] = (d * up[start + i]) * (s * (1.0 + g * c))
