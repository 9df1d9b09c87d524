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

LANES = 8
"""Outputs of one panel: two AVX2 registers, one AVX-512 register, four of NEON."""

F64 = ir.DoubleType()
F64X8 = ir.VectorType(F64, LANES)


def _widened(builder: ir.IRBuilder, pointer: ir.Value, dtype: Any) -> ir.Value:
    """Load LANES stored weights and widen them exactly to f64."""
    if dtype == types.float64:
        return load_lanes(builder, pointer, F64, 8)
    if dtype == types.float32:
        return builder.fpext(load_lanes(builder, pointer, ir.FloatType(), 4), F64X8)
    if dtype == types.uint16:  # bfloat16: the upper half of a float32
        halves = builder.zext(load_lanes(builder, pointer, ir.IntType(16), 2), ir.VectorType(ir.IntType(32), LANES))
        sixteen = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [16] * LANES)
        return builder.fpext(builder.bitcast(builder.shl(halves, sixteen), ir.VectorType(ir.FloatType(), LANES)), F64X8)
    raise errors.TypingError(f"no exact widening from {dtype}")


def load_lanes(builder: ir.IRBuilder, pointer: ir.Value, element: ir.Type, align: int) -> ir.Value:
    vector = ir.VectorType(element, LANES)
    return builder.load(builder.bitcast(pointer, vector.as_pointer()), align=align)


def splat(builder: ir.IRBuilder, scalar: ir.Value) -> ir.Value:
    one = builder.insert_element(ir.Constant(F64X8, ir.Undefined), scalar, ir.Constant(ir.IntType(32), 0))
    mask = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
    return builder.shuffle_vector(one, ir.Constant(F64X8, ir.Undefined), mask)


@intrinsic(prefer_literal=True)  # type: ignore[untyped-decorator]
def tile(typing: Any, rows: Any, panels: Any, resume: Any, x: Any, x_at: Any, x_step: Any, x_k: Any, w: Any, w_at: Any,
         w_step: Any, w_panel: Any, depth: Any, out: Any, out_at: Any, out_step: Any) -> Any:
    """Compute a tile of ``rows`` x ``panels`` x LANES sums over ``depth`` terms.

    ``rows``, ``panels`` and ``resume`` are literals; ``resume`` continues the sums that ``out`` holds
    instead of starting at +0.0. All positions and steps count elements of the flat arrays: term k of
    row r is ``x[x_at + r*x_step + k*x_k]``, its weights in panel p start at
    ``w[w_at + p*w_panel + k*w_step]``, the result at ``out[out_at + r*out_step + p*LANES]``.
    """
    if not all(isinstance(a, types.IntegerLiteral) for a in (rows, panels, resume)):
        raise errors.RequireLiteralValue("rows, panels and resume are literals")
    R, P = rows.literal_value, panels.literal_value
    resumed = bool(resume.literal_value)
    integer = types.intp
    signature = types.void(rows, panels, resume, x, integer, integer, integer, w, integer, integer, integer, integer,
                           out, integer, integer)

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> Any:
        (_, _, _, x_, x_at_, x_step_, x_k_, w_, w_at_, w_step_, w_panel_, depth_, out_, out_at_, out_step_) = args
        data = [context.make_array(t)(context, builder, v).data for t, v in ((x, x_), (w, w_), (out, out_))]
        word = x_at_.type
        x_rows = [builder.gep(data[0], [builder.add(x_at_, builder.mul(x_step_, word(r)))]) for r in range(R)]
        w_starts = [builder.gep(data[1], [builder.add(w_at_, builder.mul(w_panel_, word(p)))]) for p in range(P)]
        targets = [[builder.gep(data[2], [builder.add(builder.add(out_at_, builder.mul(out_step_, word(r))),
                                                      word(p * LANES))]) for p in range(P)] for r in range(R)]
        zero = ir.Constant(F64X8, [0.0] * LANES)
        start = [[load_lanes(builder, targets[r][p], F64, 8) if resumed else zero for p in range(P)] for r in range(R)]

        before = builder.block
        head = builder.append_basic_block("tile.head")
        body = builder.append_basic_block("tile.body")
        done = builder.append_basic_block("tile.done")
        builder.branch(head)

        builder.position_at_end(head)
        k = builder.phi(word)
        k.add_incoming(word(0), before)
        sums = [[builder.phi(F64X8) for _ in range(P)] for _ in range(R)]
        for r in range(R):
            for p in range(P):
                sums[r][p].add_incoming(start[r][p], before)
        builder.cbranch(builder.icmp_signed("<", k, depth_), body, done)

        builder.position_at_end(body)
        offset = builder.mul(k, w_step_)
        weights = [_widened(builder, builder.gep(w_starts[p], [offset]), w.dtype) for p in range(P)]
        for r in range(R):
            value = splat(builder, builder.load(builder.gep(x_rows[r], [builder.mul(k, x_k_)])))
            for p in range(P):
                total = builder.fadd(sums[r][p], builder.fmul(value, weights[p]))
                sums[r][p].add_incoming(total, body)
        k.add_incoming(builder.add(k, word(1)), body)
        builder.branch(head)

        builder.position_at_end(done)
        for r in range(R):
            for p in range(P):
                pointer = builder.bitcast(targets[r][p], F64X8.as_pointer())
                builder.store(sums[r][p], pointer, align=8)
        return context.get_dummy_value()

    return signature, codegen
