"""The formats that weights are stored in, and how each is widened to f64 in the register, exactly.

The dtype of a panel array tells its format:
    float64, float32    the values
    uint16              bfloat16: the upper half of a float32
    uint32              Q4_1 blocks: LANES float32 scales, LANES float32 minima, then per 8 terms one word
                        a lane of eight 4-bit numbers q; the value is the float32 ``scale * q + minimum``
    int32               Q8_0 blocks: LANES float32 scales, then per 4 terms one word a lane of four signed
                        bytes q; the value is the float32 ``scale * q``
A block holds BLOCK_TERMS terms of each of LANES outputs. Its scales and minima are float16 numbers of a
file, and each of its values is exact in float32: who packs blocks sees to that. So ``scale * q`` (11 + 8
bits) and the sum are exact in f64 as well, where they are computed, and are the format's values: nothing
rounds on the way, whether the processor takes the product and the sum in one instruction or in two.

The numbers of a block are unpacked to int32 on the stack first. From memory the conversion to f64 is one
operation, from a register it is two, and they are what one row's products are bound by.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from zeroulp.model.kernels.vectors import (
    CACHE_LINE,
    F32,
    F32X8,
    F64X8,
    I32,
    I32X8,
    LANES,
    every_lane,
    load_lanes,
    multiply_add_exactly,
    prefetch,
    twice,
    two_terms,
)

BLOCK_TERMS = 32
Q4_1_WORDS = LANES * (2 + BLOCK_TERMS // 8)
Q8_0_WORDS = LANES * (1 + BLOCK_TERMS // 4)

WORD_BYTES = 4

AHEAD = 1 << 14
"""Bytes between a block in use and the one that is fetched into the second-level cache. The hardware's own
look-ahead begins anew with each panel, and a panel is a few KB: without this, weights that lie in memory cost
a quarter more time than weights in the cache."""

Term = Callable[[ir.Value, list[ir.Value]], None]
Value = Callable[[ir.Value], ir.Value]
"""From the numbers of one term, as f64, to its values."""


def is_stored(dtype: Any) -> bool:
    """Tell whether a numba dtype is one of the formats."""
    return dtype in (types.float64, types.float32, types.uint16, types.uint32, types.int32)


@intrinsic
def is_quantised(typing: Any, w: Any) -> Any:
    """Tell whether ``w`` holds quantised blocks; known when the caller is compiled."""
    answer = w.dtype in (types.uint32, types.int32)

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        return ir.Constant(ir.IntType(1), int(answer))

    return types.boolean(w), codegen


@intrinsic
def stored_size(typing: Any, w: Any, depth: Any) -> Any:
    """Return how many elements of ``w`` hold ``depth`` terms of LANES outputs."""
    words = {types.uint32: Q4_1_WORDS, types.int32: Q8_0_WORDS}.get(w.dtype)

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        depth_ = args[1]
        if words is None:
            return builder.mul(depth_, depth_.type(LANES))
        return builder.mul(builder.sdiv(depth_, depth_.type(BLOCK_TERMS)), depth_.type(words))

    return types.intp(w, types.intp), codegen


@intrinsic
def widen(typing: Any, w: Any, w_at: Any, depth: Any, wide: Any) -> Any:
    """Fill ``wide [depth, LANES]`` with the terms that start at ``w[w_at]``."""

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> Any:
        start = builder.gep(context.make_array(w)(context, builder, args[0]).data, [args[1]])
        target = context.make_array(wide)(context, builder, args[3]).data

        def term(k: ir.Value, weights: list[ir.Value]) -> None:
            place = builder.gep(target, [builder.mul(k, k.type(LANES))])
            builder.store(weights[0], builder.bitcast(place, F64X8.as_pointer()), align=8)

        for_each_term(builder, w.dtype, [start], args[1].type(LANES), args[2], term)
        return context.get_dummy_value()

    return types.void(w, types.intp, types.intp, wide), codegen


def for_each_term(
    builder: ir.IRBuilder, dtype: Any, starts: list[ir.Value], step: ir.Value, depth: ir.Value, term: Term
) -> None:
    """Emit a loop that calls ``term(k, vectors)`` for k ascending, with one vector for each of the panels."""
    if dtype == types.uint32:
        _blocks(builder, starts, depth, Q4_1_WORDS, _q4_1, term)
    elif dtype == types.int32:
        _blocks(builder, starts, depth, Q8_0_WORDS, _q8_0, term)
    else:
        with cgutils.for_range(builder, depth) as loop:
            offset = builder.mul(loop.index, step)
            places = [builder.gep(start, [offset]) for start in starts]
            term(loop.index, [_widened(builder, place, dtype) for place in places])


def _widened(builder: ir.IRBuilder, place: ir.Value, dtype: Any) -> ir.Value:
    if dtype == types.float64:
        return load_lanes(builder, place)
    if dtype == types.float32:
        return builder.fpext(load_lanes(builder, place, F32, 4), F64X8)
    halves = builder.zext(load_lanes(builder, place, ir.IntType(16), 2), I32X8)
    return builder.fpext(builder.bitcast(builder.shl(halves, every_lane(16)), F32X8), F64X8)


def _blocks(
    builder: ir.IRBuilder, starts: list[ir.Value], depth: ir.Value, words: int, unpack: Any, term: Term
) -> None:
    word = depth.type
    numbers = [_numbers(builder) for _ in starts]
    with cgutils.for_range(builder, builder.sdiv(depth, word(BLOCK_TERMS))) as loop:
        offset = builder.mul(loop.index, word(words))
        values = []
        for start, target in zip(starts, numbers, strict=True):
            block = builder.gep(start, [offset])
            prefetch(builder, block, AHEAD, words * WORD_BYTES)
            values.append(unpack(builder, block, target))
        first = builder.mul(loop.index, word(BLOCK_TERMS))
        with cgutils.for_range(builder, word(BLOCK_TERMS)) as inner:
            lanes = [load_lanes(builder, _at(builder, target, inner.index), I32) for target in numbers]
            vectors = [value(builder.sitofp(q, F64X8)) for q, value in zip(lanes, values, strict=True)]
            term(builder.add(first, inner.index), vectors)


def _numbers(builder: ir.IRBuilder) -> ir.Value:
    """Return a place on the stack for the numbers of one block ``[BLOCK_TERMS, LANES]``."""
    with builder.goto_entry_block():  # not cgutils.alloca_once, which also fills it with zeros
        place = builder.alloca(ir.ArrayType(I32, BLOCK_TERMS * LANES))
    place.align = CACHE_LINE
    return builder.bitcast(place, I32.as_pointer())


def _at(builder: ir.IRBuilder, block: ir.Value, row: ir.Value) -> ir.Value:
    """Return the place of a block's ``row``-th LANES words."""
    return builder.gep(block, [builder.mul(row, row.type(LANES))])


def _q4_1(builder: ir.IRBuilder, block: ir.Value, numbers: ir.Value) -> Value:
    word = ir.IntType(64)
    scale = builder.fpext(load_lanes(builder, block, F32, 4), F64X8)
    minimum = builder.fpext(load_lanes(builder, _at(builder, block, word(1)), F32, 4), F64X8)
    with cgutils.for_range(builder, word(BLOCK_TERMS // 8)) as loop:
        packed = _twice_from(builder, block, builder.add(loop.index, word(2)))
        for index in range(0, 8, 2):
            q = builder.lshr(packed, two_terms(4 * index, 4 * index + 4))
            row = builder.add(builder.mul(loop.index, word(8)), word(index))
            _store_two(builder, builder.and_(q, two_terms(15, 15)), _at(builder, numbers, row))
    return lambda q: multiply_add_exactly(builder, q, scale, minimum)


def _q8_0(builder: ir.IRBuilder, block: ir.Value, numbers: ir.Value) -> Value:
    word = ir.IntType(64)
    scale = builder.fpext(load_lanes(builder, block, F32, 4), F64X8)
    with cgutils.for_range(builder, word(BLOCK_TERMS // 4)) as loop:
        packed = _twice_from(builder, block, builder.add(loop.index, word(1)))
        for index in range(0, 4, 2):
            q = builder.shl(packed, two_terms(24 - 8 * index, 16 - 8 * index))
            row = builder.add(builder.mul(loop.index, word(4)), word(index))
            _store_two(builder, builder.ashr(q, two_terms(24, 24)), _at(builder, numbers, row))
    return lambda q: builder.fmul(q, scale)


def _twice_from(builder: ir.IRBuilder, block: ir.Value, row: ir.Value) -> ir.Value:
    """Load a block's ``row``-th words, twice: for two terms that follow each other."""
    return twice(builder, load_lanes(builder, _at(builder, block, row), I32, 4))


def _store_two(builder: ir.IRBuilder, numbers: ir.Value, place: ir.Value) -> None:
    builder.store(numbers, builder.bitcast(place, numbers.type.as_pointer()), align=CACHE_LINE)
