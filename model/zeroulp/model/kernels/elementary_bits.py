"""What plain Python cannot say in a kernel: the bits of a number, wide products, a buffer on the stack.

All are integer operations or moves, the same on every processor. None rounds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar, cast

from llvmlite import ir
from numba import extending, types
from numba.core import cgutils

BLOCK = 64
"""Doubles in a stack buffer."""

Function = TypeVar("Function", bound=Callable[..., Any])
Integer: TypeAlias = Any
"""A signed integer, Python's or numpy's: one type in a kernel, and two for mypy that ``max`` cannot mix."""

_I64 = ir.IntType(64)
_I128 = ir.IntType(128)


def intrinsic(function: Callable[..., Any]) -> Any:
    """Make a function that numba calls while it compiles, to write LLVM code, one that kernels can call."""
    return extending.intrinsic(function)


def inlined(function: Function) -> Function:
    """Let kernels call a function that has no entry of its own: cheaper to compile than a kernel."""
    return cast(Function, extending.register_jitable(error_model="numpy")(function))


@intrinsic
def bits_of(typing: Any, x: Any) -> Any:
    """Return the 64 bits of a double as an unsigned integer."""

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> Any:
        return builder.bitcast(args[0], _I64)

    return types.uint64(types.float64), codegen


@intrinsic
def double_of(typing: Any, bits: Any) -> Any:
    """Return the double that has these 64 bits."""

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> Any:
        return builder.bitcast(args[0], ir.DoubleType())

    return types.float64(types.uint64), codegen


@intrinsic
def multiply_add(typing: Any, a: Any, b: Any, c: Any, carry: Any) -> Any:
    """Return the low and the high 64 bits of ``a * b + c + carry``, which always fit in 128."""
    word = types.uint64

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> Any:
        a_, b_, c_, carry_ = (builder.zext(value, _I128) for value in args)
        total = builder.add(builder.add(builder.mul(a_, b_), c_), carry_)
        halves = [builder.trunc(total, _I64), builder.trunc(builder.lshr(total, _I128(64)), _I64)]
        return context.make_tuple(builder, sig.return_type, halves)

    return types.UniTuple(word, 2)(word, word, word, word), codegen


@intrinsic
def stack_buffer(typing: Any) -> Any:
    """Return a pointer to BLOCK doubles in the calling function's own stack frame, for ``carray``.

    Only for use in that function and what it calls: as any local variable's, its life ends with the call.
    """

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> Any:
        buffer = cgutils.alloca_once(builder, ir.ArrayType(ir.DoubleType(), BLOCK))
        return builder.bitcast(buffer, ir.DoubleType().as_pointer())

    return types.CPointer(types.float64)(), codegen
