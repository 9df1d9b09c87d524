"""Passes over a row in vector code that a compiler may not make of a scalar loop."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from zeroulp.model.kernels.vectors import F64X8, LANES, load_lanes, splat


@intrinsic
def scale_and_maximum(typing: Any, s: Any, first: Any, groups: Any, scale: Any) -> Any:
    """Multiply ``groups * LANES`` values from ``s[first]`` by ``scale`` in place; return the largest.

    Returns NaN if one of the products is not finite. A maximum does not depend on the order, so lanes
    may keep their own. ``groups`` is at least 1.
    """

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        data = context.make_array(s)(context, builder, args[0]).data
        factor = splat(builder, args[3])
        largest = cgutils.alloca_once_value(builder, ir.Constant(F64X8, [float("-inf")] * LANES))
        odd = cgutils.alloca_once_value(builder, ir.Constant(F64X8, [0.0] * LANES))
        with cgutils.for_range(builder, args[2]) as loop:
            index = builder.add(args[1], builder.mul(loop.index, loop.index.type(LANES)))
            place = builder.gep(data, [index])
            value = builder.fmul(load_lanes(builder, place), factor)
            builder.store(value, builder.bitcast(place, F64X8.as_pointer()), align=8)
            so_far = builder.load(largest)
            builder.store(builder.select(builder.fcmp_ordered(">", value, so_far), value, so_far), largest)
            # x - x is +0.0 for a finite x and NaN otherwise; a NaN stays in the sum
            builder.store(builder.fadd(builder.load(odd), builder.fsub(value, value)), odd)
        return _reduced(builder, builder.load(largest), builder.load(odd))

    return types.float64(s, types.intp, types.intp, types.float64), codegen


def _reduced(builder: ir.IRBuilder, largest: ir.Value, odd: ir.Value) -> ir.Value:
    """Return the largest lane plus the sum of the odd lanes, which is +0.0 or NaN."""
    lanes = [ir.Constant(ir.IntType(32), lane) for lane in range(LANES)]
    best, noise = builder.extract_element(largest, lanes[0]), builder.extract_element(odd, lanes[0])
    for lane in lanes[1:]:
        value = builder.extract_element(largest, lane)
        best = builder.select(builder.fcmp_ordered(">", value, best), value, best)
        noise = builder.fadd(noise, builder.extract_element(odd, lane))
    return builder.fadd(best, noise)
