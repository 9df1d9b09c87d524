"""A tile of sums of products, as vector code: the only inner loop of every matrix product.

    acc[r, p, lane] = start[r, p, lane]
    for k ascending:  acc[r, p, lane] = acc[r, p, lane] + x[r, k] * w[p, k, lane]

Each product is rounded, then each sum. Lanes, rows and panels are separate outputs: no sum is split.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils, errors
from numba.extending import intrinsic

from zeroulp.model.kernels.stored import for_each_term, is_stored
from zeroulp.model.kernels.vectors import F64X8, LANES, load_lanes, splat


@intrinsic(prefer_literal=True)
def tile(
    typing: Any,
    rows: Any,
    panels: Any,
    resume: Any,
    x: Any,
    x_at: Any,
    x_step: Any,
    x_k: Any,
    w: Any,
    w_at: Any,
    w_step: Any,
    w_panel: Any,
    depth: Any,
    out: Any,
    out_at: Any,
    out_step: Any,
) -> Any:
    """Compute a tile of ``rows`` x ``panels`` x LANES sums over ``depth`` terms.

    ``rows``, ``panels`` and ``resume`` are literals; ``resume`` continues the sums that ``out`` holds
    instead of starting at +0.0. All positions and steps count elements of the flat arrays: term k of
    row r is ``x[x_at + r*x_step + k*x_k]``, its weights in panel p start at
    ``w[w_at + p*w_panel + k*w_step]``, the result at ``out[out_at + r*out_step + p*LANES]``. Weights in
    quantised blocks have no ``w_step``: their terms follow each other in the block's own order.
    """
    if not all(isinstance(a, types.IntegerLiteral) for a in (rows, panels, resume)):
        raise errors.RequireLiteralValue("rows, panels and resume are literals")
    if not is_stored(w.dtype):
        raise errors.TypingError(f"no exact widening from {w.dtype}")
    R, P = rows.literal_value, panels.literal_value
    resumed = bool(resume.literal_value)
    n = types.intp
    signature = types.void(rows, panels, resume, x, n, n, n, w, n, n, n, n, out, n, n)

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> Any:
        x_, x_at_, x_step_, x_k_, w_, w_at_, w_step_, w_panel_, depth_, out_, out_at_, out_step_ = args[3:]
        data = [context.make_array(t)(context, builder, v).data for t, v in ((x, x_), (w, w_), (out, out_))]
        emit_tile(
            builder,
            w.dtype,
            resumed,
            places(builder, data[0], x_at_, x_step_, R),
            x_k_,
            places(builder, data[1], w_at_, w_panel_, P),
            w_step_,
            depth_,
            places(builder, data[2], out_at_, out_step_, R),
        )
        return context.get_dummy_value()

    return signature, codegen


def places(builder: ir.IRBuilder, base: ir.Value, at: ir.Value, step: ir.Value, count: int) -> list[ir.Value]:
    """Return pointers to ``count`` elements, ``step`` apart, the first at ``base[at]``."""
    return [
        builder.gep(base, [builder.add(at, builder.mul(step, step.type(index)))]) for index in range(count)
    ]


def emit_tile(
    builder: ir.IRBuilder,
    dtype: Any,
    resumed: bool,
    x_rows: list[ir.Value],
    x_k: ir.Value,
    w_starts: list[ir.Value],
    w_step: ir.Value,
    depth: ir.Value,
    out_rows: list[ir.Value],
) -> None:
    """Emit the code of a tile with one row for each of ``x_rows`` and one panel for each of ``w_starts``."""
    cells = [(r, p) for r in range(len(x_rows)) for p in range(len(w_starts))]
    targets = {(r, p): builder.gep(out_rows[r], [x_k.type(p * LANES)]) for r, p in cells}
    zero = ir.Constant(F64X8, [0.0] * LANES)
    # on the stack by name only: the compiler keeps them in registers
    sums = {
        cell: cgutils.alloca_once_value(builder, load_lanes(builder, targets[cell]) if resumed else zero)
        for cell in cells
    }

    def term(k: ir.Value, weights: list[ir.Value]) -> None:
        for r, row in enumerate(x_rows):
            value = splat(builder, builder.load(builder.gep(row, [builder.mul(k, x_k)])))
            for p, weight in enumerate(weights):
                product = builder.fmul(value, weight)
                builder.store(builder.fadd(builder.load(sums[r, p]), product), sums[r, p])

    for_each_term(builder, dtype, w_starts, w_step, depth, term)
    for cell in cells:
        pointer = builder.bitcast(targets[cell], F64X8.as_pointer())
        builder.store(builder.load(sums[cell]), pointer, align=8)
