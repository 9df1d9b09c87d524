"""Atomic access to elements of an int64 array, and giving up the processor for a moment."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

_ORDER = "seq_cst"

give_way = types.ExternalFunction("sched_yield", types.int32())
"""The C library's ``sched_yield``: lets another runnable thread have this processor."""


def _address(context: Any, builder: ir.IRBuilder, array: Any, value: ir.Value, index: ir.Value) -> ir.Value:
    return builder.gep(context.make_array(array)(context, builder, value).data, [index])


@intrinsic
def atomic_load(typing: Any, array: Any, index: Any) -> Any:
    """Return ``array[index]``."""

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        return builder.load_atomic(_address(context, builder, array, args[0], args[1]), _ORDER, 8)

    return types.int64(array, types.intp), codegen


@intrinsic
def atomic_store(typing: Any, array: Any, index: Any, value: Any) -> Any:
    """Set ``array[index] = value``."""

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        builder.store_atomic(args[2], _address(context, builder, array, args[0], args[1]), _ORDER, 8)
        return context.get_dummy_value()

    return types.void(array, types.intp, types.int64), codegen


@intrinsic
def atomic_add(typing: Any, array: Any, index: Any, value: Any) -> Any:
    """Add to ``array[index]`` and return what it was before."""

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        return builder.atomic_rmw("add", _address(context, builder, array, args[0], args[1]), args[2], _ORDER)

    return types.int64(array, types.intp, types.int64), codegen


@intrinsic
def atomic_exchange_if(typing: Any, array: Any, index: Any, expected: Any, value: Any) -> Any:
    """Set ``array[index] = value`` if it is ``expected``; tell whether it was."""

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        place = _address(context, builder, array, args[0], args[1])
        return builder.extract_value(builder.cmpxchg(place, args[2], args[3], _ORDER, _ORDER), 1)

    return types.boolean(array, types.intp, types.int64, types.int64), codegen


@intrinsic
def pointer_at(typing: Any, address: Any) -> Any:
    """Return an integer address as a pointer, for ``carray``."""

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        return builder.inttoptr(args[0], context.get_value_type(types.voidptr))

    return types.voidptr(types.int64), codegen


@intrinsic
def float_bits(typing: Any, value: Any) -> Any:
    """Return the bits of an f64 as an int64."""

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        return builder.bitcast(args[0], ir.IntType(64))

    return types.int64(types.float64), codegen


@intrinsic
def bits_float(typing: Any, bits: Any) -> Any:
    """Return the f64 whose bits an int64 holds."""

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        return builder.bitcast(args[0], ir.DoubleType())

    return types.float64(types.int64), codegen


@intrinsic
def call_part(typing: Any, row: Any, part: Any) -> Any:
    """Call the code whose address is ``row[0]`` with the row's address and a part number."""

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        data = context.make_array(row)(context, builder, args[0]).data
        kind = ir.FunctionType(ir.VoidType(), [data.type, ir.IntType(64)])
        builder.call(builder.inttoptr(builder.load(data), kind.as_pointer()), [data, args[1]])
        return context.get_dummy_value()

    return types.void(row, types.int64), codegen
