"""Vectors of LANES f64, as LLVM values."""

from __future__ import annotations

from llvmlite import ir

LANES = 8
"""Outputs of one panel: two AVX2 registers, one AVX-512 register, four of NEON."""

F64 = ir.DoubleType()
F32 = ir.FloatType()
I32 = ir.IntType(32)
F64X8 = ir.VectorType(F64, LANES)
F32X8 = ir.VectorType(F32, LANES)
I32X8 = ir.VectorType(I32, LANES)


def load_lanes(builder: ir.IRBuilder, pointer: ir.Value, element: ir.Type = F64, align: int = 8) -> ir.Value:
    """Load LANES elements of a type from a pointer to any type."""
    return builder.load(builder.bitcast(pointer, ir.VectorType(element, LANES).as_pointer()), align=align)


def splat(builder: ir.IRBuilder, scalar: ir.Value) -> ir.Value:
    """Return a vector that holds one f64 in every lane."""
    empty = ir.Constant(F64X8, ir.Undefined)
    one = builder.insert_element(empty, scalar, I32(0))
    return builder.shuffle_vector(one, empty, ir.Constant(I32X8, [0] * LANES))


def every_lane(number: int) -> ir.Constant:
    """Return a vector that holds one int32 in every lane."""
    return ir.Constant(I32X8, [number] * LANES)
