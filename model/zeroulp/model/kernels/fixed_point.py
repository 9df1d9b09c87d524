"""Fixed-point numbers of five 64-bit limbs: the engine of the accurate paths.

A number is a tuple of limbs, least significant first: four of fraction (256 bits, the unit is 2^-256) and
one whole. Sums wrap, so negative numbers are two's complement; products take numbers >= 0. All operations are
written as integer LLVM code, which compiles much faster than the same written limb by limb in Python. Knows
nothing of the functions that are computed with it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils

from zeroulp.model.kernels.elementary_bits import Integer, bits_of, double_of, inlined, intrinsic
from zeroulp.model.kernels.elementary_constants import U64

Fixed: TypeAlias = tuple[np.uint64, np.uint64, np.uint64, np.uint64, np.uint64]
Values: TypeAlias = Sequence[ir.Value]

LIMBS = 5
_WORD, _WIDE, _NUMBER = ir.IntType(64), ir.IntType(128), ir.IntType(64 * LIMBS)
_LIMBS = ir.ArrayType(_WORD, LIMBS)
_FIXED = types.UniTuple(types.uint64, LIMBS)

# Unsigned 64-bit constants: numba would take a plain 1 for signed, and signed + unsigned for a double.
ZERO, ONE = np.uint64(0), np.uint64(1)
WORD_BITS = np.uint64(64)
SIGN = np.uint64(1 << 63)
_IMPLICIT_BIT = np.uint64(1 << 52)
_FRACTION_MASK = np.uint64((1 << 52) - 1)
_EXPONENT_MASK = np.uint64(0x7FF)
_EXPONENT_SHIFT = np.uint64(52)


def _joined(builder: ir.IRBuilder, limbs: Values) -> ir.Value:
    number = builder.zext(limbs[0], _NUMBER)
    for i, limb in enumerate(limbs[1:], 1):
        number = builder.or_(number, builder.shl(builder.zext(limb, _NUMBER), _NUMBER(64 * i)))
    return number


def _split(builder: ir.IRBuilder, number: ir.Value) -> list[ir.Value]:
    return [builder.trunc(builder.lshr(number, _NUMBER(64 * i)), _WORD) for i in range(LIMBS)]


def _row(builder: ir.IRBuilder, a: Values, factor: ir.Value, plus: Values) -> list[ir.Value]:
    """Return the limbs of ``a * factor + plus``: one more than a has."""
    factor, carry, out = builder.zext(factor, _WIDE), _WIDE(0), []
    for limb, addend in zip(a, plus, strict=True):
        product = builder.mul(builder.zext(limb, _WIDE), factor)
        total = builder.add(builder.add(product, builder.zext(addend, _WIDE)), carry)
        out.append(builder.trunc(total, _WORD))
        carry = builder.lshr(total, _WIDE(64))
    return [*out, builder.trunc(carry, _WORD)]


def _operation(name: str, arguments: Sequence[Any], build: Callable[..., list[ir.Value]]) -> Any:
    """Return an intrinsic's signature and code: a call of one function per module, never inlined.

    ``build`` makes that function's body from a builder and each argument's limbs or value.
    """

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> Any:
        kind = ir.FunctionType(_LIMBS, [argument.type for argument in args])
        function = cgutils.get_or_insert_function(builder.module, kind, f"zeroulp_fixed_{name}")
        if function.is_declaration:
            function.linkage = "linkonce_odr"
            function.attributes.add("noinline")
            body = ir.IRBuilder(function.append_basic_block())
            plain = [cgutils.unpack_tuple(body, v) if v.type == _LIMBS else v for v in function.args]
            result = ir.Constant(_LIMBS, ir.Undefined)
            for i, limb in enumerate(build(body, *plain)):
                result = body.insert_value(result, limb, i)
            body.ret(result)
        return builder.call(function, args)

    return _FIXED(*arguments), codegen


@intrinsic
def add(typing: Any, a: Any, b: Any) -> Any:
    """Return a + b, exact modulo 2^64."""
    return _operation("add", (_FIXED, _FIXED), lambda builder, a, b: _split(
        builder, builder.add(_joined(builder, a), _joined(builder, b))))  # fmt: skip


@intrinsic
def subtract(typing: Any, a: Any, b: Any) -> Any:
    """Return a - b, exact modulo 2^64."""
    return _operation("subtract", (_FIXED, _FIXED), lambda builder, a, b: _split(
        builder, builder.sub(_joined(builder, a), _joined(builder, b))))  # fmt: skip


@intrinsic
def scaled(typing: Any, a: Any, factor: Any) -> Any:
    """Return a times an unsigned integer, exact modulo 2^64."""
    return _operation("scaled", (_FIXED, types.uint64), lambda builder, a, factor: _row(
        builder, a, factor, [_WORD(0)] * LIMBS)[:LIMBS])  # fmt: skip


@intrinsic
def multiply(typing: Any, a: Any, b: Any) -> Any:
    """Return a * b for a, b >= 0, truncated: the error is in [0, 1.001) units.

    Horner over the limbs of b: four times ``sum = (sum + a * limb) / 2^64``, then ``+ a * whole``. Each
    division truncates less than one unit, and later ones divide that by 2^64.
    """

    def build(builder: ir.IRBuilder, a: list[ir.Value], b: list[ir.Value]) -> list[ir.Value]:
        total = [_WORD(0)] * LIMBS
        for limb in b[:-1]:
            total = _row(builder, a, limb, total)[1:]
        return _row(builder, a, b[-1], total)[:LIMBS]

    return _operation("multiply", (_FIXED, _FIXED), build)


@intrinsic
def shift_left(typing: Any, a: Any, bits: Any) -> Any:
    """Return a * 2^bits, exact modulo 2^64, for an unsigned number of bits."""
    return _operation("shift_left", (_FIXED, types.uint64),
                      lambda builder, a, bits: _shifted(builder, builder.shl, a, bits))  # fmt: skip


@intrinsic
def shift_right(typing: Any, a: Any, bits: Any) -> Any:
    """Return a / 2^bits for a >= 0, truncated to a unit, for an unsigned number of bits."""
    return _operation("shift_right", (_FIXED, types.uint64),
                      lambda builder, a, bits: _shifted(builder, builder.lshr, a, bits))  # fmt: skip


def _shifted(builder: ir.IRBuilder, shift: Any, a: list[ir.Value], bits: ir.Value) -> list[ir.Value]:
    inside = builder.icmp_unsigned("<", bits, _WORD(64 * LIMBS))
    bits = builder.zext(builder.select(inside, bits, _WORD(0)), _NUMBER)
    return _split(builder, builder.select(inside, shift(_joined(builder, a), bits), _NUMBER(0)))


@intrinsic
def leading_zeros(typing: Any, a: Any) -> Any:
    """Return how many zero bits stand above the highest one of a: 0 to 320."""

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> Any:
        zeros = builder.ctlz(_joined(builder, cgutils.unpack_tuple(builder, args[0])), ir.IntType(1)(0))
        return builder.trunc(zeros, _WORD)

    return types.uint64(_FIXED), codegen


@inlined
def row(table: U64, n: Integer) -> Fixed:
    """Return the number in row n of a table ``[rows, 5]``."""
    return table[n, 0], table[n, 1], table[n, 2], table[n, 3], table[n, 4]


@inlined
def significand_and_exponent(x: float) -> tuple[np.uint64, Integer]:
    """Return M (unsigned) and e with ``|x| = M * 2^e`` for a finite x; M has 53 bits if x is normal."""
    bits = bits_of(x)
    biased: Integer = np.int64(bits >> _EXPONENT_SHIFT & _EXPONENT_MASK)
    significand = bits & _FRACTION_MASK
    if biased != 0:
        significand |= _IMPLICIT_BIT
    return significand, max(biased, 1) - 1075


@inlined
def from_double(x: float, exponent: Integer) -> Fixed:
    """Return ``|x| * 2^exponent`` truncated to a unit; it must be below 2^64."""
    significand, own = significand_and_exponent(x)
    shift = 256 + own + exponent
    left = shift_left((significand, ZERO, ZERO, ZERO, ZERO), np.uint64(max(shift, 0)))
    return shift_right(left, np.uint64(max(-shift, 0)))


@inlined
def nearest_double(a: Fixed, exponent: Integer) -> float:
    """Return the double nearest to ``a * 2^exponent`` for a > 0, ties to even, 0 and infinity included."""
    zeros = leading_zeros(a)
    a = shift_left(a, zeros)
    # Now 2^63 <= a[4] < 2^64 and the value lies in [2^leading, 2^(leading+1)).
    leading = exponent + 63 - np.int64(zeros)
    if leading > 1023:
        return np.inf
    if leading < -1075:
        return 0.0
    # The bits below the last place: 11 of the top limb, more in the subnormal range, at most all 64.
    dropped = np.uint64(11 + max(-1022 - leading, 0))
    kept = a[4] >> dropped if dropped < WORD_BITS else ZERO
    rest = a[4] << (WORD_BITS - dropped)
    more = (a[0] | a[1] | a[2] | a[3]) != ZERO
    if rest > SIGN or (rest == SIGN and (more or kept & ONE == ONE)):
        kept += ONE
    # A significand of 53 bits adds its implicit bit to the exponent's field; so does one that was rounded up.
    return double_of(kept + (np.uint64(max(leading, -1022) + 1022) << _EXPONENT_SHIFT))
