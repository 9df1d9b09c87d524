"""The gradient kernels as jobs: what a job's row holds after its code and its number of parts."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import carray

from zeroulp.model.kernels.arrays import I64, Panels
from zeroulp.model.kernels.atomics import bits_float, pointer_at
from zeroulp.model.kernels.backward.attention import key_gradient_part, query_gradient_part
from zeroulp.model.kernels.backward.elementwise import swiglu_gradient_part
from zeroulp.model.kernels.backward.lookup import lookup_gradient_part
from zeroulp.model.kernels.backward.norm import gain_gradient_part, norm_gradient_part
from zeroulp.model.kernels.backward.panels import pack_part, transpose_panels_part, transpose_part
from zeroulp.model.kernels.backward.softmax import loss_gradient_part, softmax_gradient_part
from zeroulp.model.kernels.cache_rows import BLOCK
from zeroulp.model.kernels.jit import Part, kernel
from zeroulp.model.kernels.parts import JOB_WORDS, f64_at, i64_at
from zeroulp.model.kernels.vectors import LANES


@Part
def transpose(row: Any, part: int) -> None:
    """Rows, width, x, y."""
    job = carray(row, JOB_WORDS)
    size = job[2] * job[3]
    transpose_part(f64_at(job[4], size), job[2], job[3], f64_at(job[5], size), part, job[1])


@Part
def pack(row: Any, part: int) -> None:
    """Rows, width, x, panels."""
    job = carray(row, JOB_WORDS)
    rows, width = job[2], job[3]
    panels = f64_at(job[5], (width + LANES - 1) // LANES * rows * LANES)
    pack_part(f64_at(job[4], rows * width), rows, width, panels, part, job[1])


@kernel
def _transpose_panels(job: I64, w: Panels, part: int) -> None:
    depth, width = job[2], job[3]
    turned = f64_at(job[6], (depth + LANES - 1) // LANES * width * LANES)
    transpose_panels_part(w, depth, width, turned, part, job[1])


@Part
def transpose_f64(row: Any, part: int) -> None:
    """Depth, width, size of the panels, panels, panels of the transpose."""
    job = carray(row, JOB_WORDS)
    _transpose_panels(job, carray(pointer_at(job[5]), (job[4],), np.float64), part)


@Part
def transpose_f32(row: Any, part: int) -> None:
    """Depth, width, size of the panels, panels, panels of the transpose."""
    job = carray(row, JOB_WORDS)
    _transpose_panels(job, carray(pointer_at(job[5]), (job[4],), np.float32), part)


@Part
def transpose_bf16(row: Any, part: int) -> None:
    """Depth, width, size of the panels, panels, panels of the transpose."""
    job = carray(row, JOB_WORDS)
    _transpose_panels(job, carray(pointer_at(job[5]), (job[4],), np.uint16), part)


@Part
def transpose_q4_1(row: Any, part: int) -> None:
    """Depth, width, size of the panels, panels, panels of the transpose."""
    job = carray(row, JOB_WORDS)
    _transpose_panels(job, carray(pointer_at(job[5]), (job[4],), np.uint32), part)


@Part
def transpose_q8_0(row: Any, part: int) -> None:
    """Depth, width, size of the panels, panels, panels of the transpose."""
    job = carray(row, JOB_WORDS)
    _transpose_panels(job, carray(pointer_at(job[5]), (job[4],), np.int32), part)


@Part
def lookup(row: Any, part: int) -> None:
    """Rows, width, vocabulary size, ids, dx, table."""
    job = carray(row, JOB_WORDS)
    rows, width = job[2], job[3]
    dx, table = f64_at(job[6], rows * width), f64_at(job[7], job[4] * width)
    lookup_gradient_part(i64_at(job[5], rows), dx, width, table, part, job[1])


@Part
def rms_norm(row: Any, part: int) -> None:
    """Rows, width, x, gain, epsilon, dy, inverse, dx."""
    job = carray(row, JOB_WORDS)
    rows, width = job[2], job[3]
    x, dy, dx = f64_at(job[4], rows * width), f64_at(job[7], rows * width), f64_at(job[9], rows * width)
    gain, inverse = f64_at(job[5], width), f64_at(job[8], rows)
    norm_gradient_part(x, rows, width, gain, bits_float(job[6]), dy, inverse, dx, part, job[1])


@Part
def gain(row: Any, part: int) -> None:
    """Rows, width, x, inverse, dy, dgain."""
    job = carray(row, JOB_WORDS)
    rows, width = job[2], job[3]
    x, dy = f64_at(job[4], rows * width), f64_at(job[6], rows * width)
    gain_gradient_part(x, rows, width, f64_at(job[5], rows), dy, f64_at(job[7], width), part, job[1])


@Part
def swiglu(row: Any, part: int) -> None:
    """Size, gate, up, dy, dgate, dup."""
    job = carray(row, JOB_WORDS)
    size = job[2]
    gate, up, dy = f64_at(job[3], size), f64_at(job[4], size), f64_at(job[5], size)
    swiglu_gradient_part(gate, up, dy, f64_at(job[6], size), f64_at(job[7], size), part, job[1])


@Part
def softmax(row: Any, part: int) -> None:
    """Rows, width, p, dp, ds."""
    job = carray(row, JOB_WORDS)
    rows, width = job[2], job[3]
    p, dp, ds = f64_at(job[4], rows * width), f64_at(job[5], rows * width), f64_at(job[6], rows * width)
    softmax_gradient_part(p, rows, width, dp, ds, part, job[1])


@Part
def loss(row: Any, part: int) -> None:
    """Rows, width, z, targets, valid, share, dz."""
    job = carray(row, JOB_WORDS)
    rows, width = job[2], job[3]
    z, dz = f64_at(job[4], rows * width), f64_at(job[8], rows * width)
    targets, valid = i64_at(job[5], rows), i64_at(job[6], rows)
    loss_gradient_part(z, rows, width, targets, valid, bits_float(job[7]), dz, part, job[1])


@Part
def attention_queries(row: Any, part: int) -> None:
    """Positions, heads, group, head width, padded width, blocks; band's begin and end; q, do, first, last.

    Then table, keys, values, key rows; scale; size of p and ds, p, ds; dq.
    """
    job = carray(row, JOB_WORDS)
    positions, heads, group, width, padded, blocks = job[2], job[3], job[4], job[5], job[6], job[7]
    shape = (heads, positions * group, padded)
    q, do = carray(pointer_at(job[10]), shape, np.float64), carray(pointer_at(job[11]), shape, np.float64)
    first, last, table = i64_at(job[12], positions), i64_at(job[13], positions), i64_at(job[14], blocks)
    panels = (blocks, heads, BLOCK // LANES, width, LANES)
    keys = carray(pointer_at(job[15]), panels, np.float64)
    values = carray(pointer_at(job[16]), panels, np.float64)
    key_rows = carray(pointer_at(job[17]), (blocks, heads, BLOCK, padded), np.float64)
    p, ds = f64_at(job[20], job[19]), f64_at(job[21], job[19])
    dq = carray(pointer_at(job[22]), shape, np.float64)
    query_gradient_part(
        q,
        do,
        job[8],
        job[9],
        first,
        last,
        table,
        keys,
        values,
        key_rows,
        bits_float(job[18]),
        p,
        ds,
        dq,
        part,
        job[1],
    )


@Part
def attention_keys(row: Any, part: int) -> None:
    """Positions, heads, group, padded width, all keys; band's begin and end, its keys' start and stop, span.

    Then q, do, seen first, seen last, p, ds, dk, dv.
    """
    job = carray(row, JOB_WORDS)
    positions, heads, group, padded, keys = job[2], job[3], job[4], job[5], job[6]
    begin, end = job[7], job[8]
    shape, square = (heads, positions * group, padded), (heads, (end - begin) * group, job[11])
    q, do = carray(pointer_at(job[12]), shape, np.float64), carray(pointer_at(job[13]), shape, np.float64)
    p, ds = carray(pointer_at(job[16]), square, np.float64), carray(pointer_at(job[17]), square, np.float64)
    dk = carray(pointer_at(job[18]), (heads, keys, padded), np.float64)
    dv = carray(pointer_at(job[19]), (heads, keys, padded), np.float64)
    seen_first, seen_last = i64_at(job[14], keys), i64_at(job[15], keys)
    key_gradient_part(
        q,
        do,
        group,
        begin,
        end,
        job[9],
        job[10],
        seen_first,
        seen_last,
        p,
        ds,
        dk,
        dv,
        part,
        job[1],
    )
