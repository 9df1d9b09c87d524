"""The kernels that threads share, as jobs: what a job's row holds, and how one part of it is run.

A row: address of the part's code, number of parts, then the operation's own words. Arrays travel as
addresses; the caller keeps them alive until the job is done.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import carray

from zeroulp.model.kernels.arrays import I64, Panels
from zeroulp.model.kernels.atomics import bits_float, pointer_at
from zeroulp.model.kernels.attention import (
    attention_part,
    few_mixes_part,
    few_probabilities_part,
    few_scores_part,
)
from zeroulp.model.kernels.cache_rows import BLOCK
from zeroulp.model.kernels.elementwise import add_part, multiply_part, swiglu_part
from zeroulp.model.kernels.jit import Part, kernel
from zeroulp.model.kernels.linear import linear_part, pack_rows_part
from zeroulp.model.kernels.norm import rms_norm_part
from zeroulp.model.kernels.rope import rope_part
from zeroulp.model.kernels.softmax import log_normaliser_part, softmax_part
from zeroulp.model.kernels.vectors import LANES

JOB_WORDS = 24


@kernel
def f64_at(address: int, size: int) -> Any:
    """Return the flat array of ``size`` f64 at an address."""
    return carray(pointer_at(address), (size,), np.float64)


@kernel
def i64_at(address: int, size: int) -> Any:
    """Return the flat array of ``size`` int64 at an address."""
    return carray(pointer_at(address), (size,), np.int64)


@Part
def pack_rows(row: Any, part: int) -> None:
    """Rows, depth, x, packed rows."""
    job = carray(row, JOB_WORDS)
    size = job[2] * job[3]
    pack_rows_part(f64_at(job[4], size), job[2], job[3], f64_at(job[5], size), part, job[1])


@kernel
def _linear(job: I64, w: Panels, part: int) -> None:
    rows, depth, width = job[2], job[3], job[4]
    x, packed, y = f64_at(job[5], rows * depth), f64_at(job[8], rows * depth), f64_at(job[7], rows * width)
    linear_part(x, packed, rows, depth, w, y, width, part, job[1])


@Part
def linear_f64(row: Any, part: int) -> None:
    """Rows, depth, width, x, panels, y, packed rows, size of the panels."""
    job = carray(row, JOB_WORDS)
    _linear(job, carray(pointer_at(job[6]), (job[9],), np.float64), part)


@Part
def linear_f32(row: Any, part: int) -> None:
    """Rows, depth, width, x, panels, y, packed rows, size of the panels."""
    job = carray(row, JOB_WORDS)
    _linear(job, carray(pointer_at(job[6]), (job[9],), np.float32), part)


@Part
def linear_bf16(row: Any, part: int) -> None:
    """Rows, depth, width, x, panels, y, packed rows, size of the panels."""
    job = carray(row, JOB_WORDS)
    _linear(job, carray(pointer_at(job[6]), (job[9],), np.uint16), part)


@Part
def linear_q4_1(row: Any, part: int) -> None:
    """Rows, depth, width, x, panels, y, packed rows, size of the panels."""
    job = carray(row, JOB_WORDS)
    _linear(job, carray(pointer_at(job[6]), (job[9],), np.uint32), part)


@Part
def linear_q8_0(row: Any, part: int) -> None:
    """Rows, depth, width, x, panels, y, packed rows, size of the panels."""
    job = carray(row, JOB_WORDS)
    _linear(job, carray(pointer_at(job[6]), (job[9],), np.int32), part)


@Part
def rms_norm(row: Any, part: int) -> None:
    """Rows, width, x, gain, epsilon, y."""
    job = carray(row, JOB_WORDS)
    rows, width = job[2], job[3]
    x, y = f64_at(job[4], rows * width), f64_at(job[7], rows * width)
    rms_norm_part(x, rows, width, f64_at(job[5], width), bits_float(job[6]), y, part, job[1])


@Part
def rotate(row: Any, part: int) -> None:
    """Rows, width, pairs, x, cosines, sines, y."""
    job = carray(row, JOB_WORDS)
    rows, width, pairs = job[2], job[3], job[4]
    x, y = f64_at(job[5], rows * width), f64_at(job[8], rows * width)
    rope_part(
        x, rows, width, f64_at(job[6], rows * pairs), f64_at(job[7], rows * pairs), pairs, y, part, job[1]
    )


@Part
def swiglu(row: Any, part: int) -> None:
    """Size, gate, up, y."""
    job = carray(row, JOB_WORDS)
    size = job[2]
    swiglu_part(f64_at(job[3], size), f64_at(job[4], size), f64_at(job[5], size), part, job[1])


@Part
def add(row: Any, part: int) -> None:
    """Size, x, branch, y."""
    job = carray(row, JOB_WORDS)
    size = job[2]
    add_part(f64_at(job[3], size), f64_at(job[4], size), f64_at(job[5], size), part, job[1])


@Part
def multiply(row: Any, part: int) -> None:
    """Size, x, mask, y."""
    job = carray(row, JOB_WORDS)
    size = job[2]
    multiply_part(f64_at(job[3], size), f64_at(job[4], size), f64_at(job[5], size), part, job[1])


@kernel
def _attention_arrays(job: I64) -> Any:
    """Return q, first, last, table, keys, values, y of an attention row: see `attention`."""
    rows, width, blocks, heads, head_width, padded = job[2], job[3], job[4], job[5], job[6], job[7]
    q = carray(pointer_at(job[8]), (rows, width), np.float64)
    y = carray(pointer_at(job[15]), (rows, width), np.float64)
    keys = carray(pointer_at(job[12]), (blocks, heads, BLOCK // LANES, head_width, LANES), np.float64)
    values = carray(pointer_at(job[13]), (blocks, heads, BLOCK, padded), np.float64)
    return q, i64_at(job[9], rows), i64_at(job[10], rows), i64_at(job[11], job[17]), keys, values, y


@Part
def attention(row: Any, part: int) -> None:
    """Rows, width, blocks, heads, head width, padded width; q, first, last, table, keys, values.

    Then scale, y, finite, table size, scores, size of the scores.
    """
    job = carray(row, JOB_WORDS)
    q, first, last, table, keys, values, y = _attention_arrays(job)
    finite = i64_at(job[16], job[1])
    attention_part(q, first, last, table, keys, values, bits_float(job[14]), y, finite, part, job[1])


@Part
def few_scores(row: Any, part: int) -> None:
    """As `attention`."""
    job = carray(row, JOB_WORDS)
    q, first, last, table, keys, _, _ = _attention_arrays(job)
    few_scores_part(q, first, last, table, keys, f64_at(job[18], job[19]), part, job[1])


@Part
def few_probabilities(row: Any, part: int) -> None:
    """As `attention`."""
    job = carray(row, JOB_WORDS)
    q, first, last, table, keys, _, _ = _attention_arrays(job)
    s, finite = f64_at(job[18], job[19]), i64_at(job[16], job[1])
    few_probabilities_part(q, first, last, table, keys, bits_float(job[14]), s, finite, part, job[1])


@Part
def few_mixes(row: Any, part: int) -> None:
    """As `attention`."""
    job = carray(row, JOB_WORDS)
    q, first, last, table, keys, values, y = _attention_arrays(job)
    few_mixes_part(q, first, last, table, keys, values, f64_at(job[18], job[19]), y, part, job[1])


@Part
def softmax(row: Any, part: int) -> None:
    """Rows, width, x, y."""
    job = carray(row, JOB_WORDS)
    rows, width = job[2], job[3]
    softmax_part(f64_at(job[4], rows * width), rows, width, f64_at(job[5], rows * width), part, job[1])


@Part
def log_normaliser(row: Any, part: int) -> None:
    """Rows, width, z, best, log_tail."""
    job = carray(row, JOB_WORDS)
    rows, width = job[2], job[3]
    log_normaliser_part(
        f64_at(job[4], rows * width), rows, width, i64_at(job[5], rows), f64_at(job[6], rows), part, job[1]
    )
