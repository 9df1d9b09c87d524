"""Vectors of LANES f64, as LLVM values."""

from __future__ import annotations

from llvmlite import ir
from numba.core import cgutils

LANES = 8
"""Outputs of one panel: two AVX2 registers, one AVX-512 register, four of NEON."""

CACHE_LINE = 64
"""Bytes."""

F64 = ir.DoubleType()
F32 = ir.FloatType()
I32 = ir.IntType(32)
F64X8 = ir.VectorType(F64, LANES)
F32X8 = ir.VectorType(F32, LANES)
I32X8 = ir.VectorType(I32, LANES)
I32X16 = ir.VectorType(I32, 2 * LANES)


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


def twice(builder: ir.IRBuilder, lanes: ir.Value) -> ir.Value:
    """Return LANES int32 and the same again."""
    return builder.shuffle_vector(lanes, lanes, ir.Constant(I32X16, [*range(LANES), *range(LANES)]))


def two_terms(first: int, second: int) -> ir.Constant:
    """Return a vector that holds one int32 in LANES lanes and another in as many more."""
    return ir.Constant(I32X16, [first] * LANES + [second] * LANES)


def multiply_add_exactly(builder: ir.IRBuilder, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
    """Return ``a * b + c`` for vectors of which both the product and the sum are exact.

    The compiler takes one instruction where the processor has it; since nothing is rounded, the bits are
    those of two.
    """
    kind = ir.FunctionType(F64X8, [F64X8] * 3)
    function = cgutils.get_or_insert_function(builder.module, kind, f"llvm.fmuladd.v{LANES}f64")
    return builder.call(function, [a, b, c])


def prefetch(builder: ir.IRBuilder, pointer: ir.Value, ahead: int, size: int) -> None:
    """Ask for ``size`` bytes that lie ``ahead`` bytes past a pointer, in the second-level cache.

    They need not exist.
    """
    byte = ir.IntType(8).as_pointer()
    kind = ir.FunctionType(ir.VoidType(), [byte, I32, I32, I32])
    function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
    start = builder.bitcast(pointer, byte)
    read, second_level, data = I32(0), I32(2), I32(1)
    for line in range(ahead, ahead + size, CACHE_LINE):
        builder.call(function, [builder.gep(start, [I32(line)]), read, second_level, data])
