"""The kernels that a team shares, as calls: each fills a job's row and runs it.

How many parts a call has depends on its size only. A part should take some ten microseconds: long
against taking it, short against waiting for the last one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from zeroulp.model.kernels import parts
from zeroulp.model.kernels.arrays import F64, I64, Panels
from zeroulp.model.kernels.atomics import float_bits
from zeroulp.model.kernels.attention_strip import STRIP_ROWS
from zeroulp.model.kernels.cache_rows import BLOCK
from zeroulp.model.kernels.elementwise import all_set
from zeroulp.model.kernels.jit import Part, kernel
from zeroulp.model.kernels.linear import ABREAST, FEW_ROWS, TILE_ROWS
from zeroulp.model.kernels.parts import JOB_WORDS
from zeroulp.model.kernels.team import run_jobs
from zeroulp.model.kernels.vectors import LANES

MOST_PARTS = 64

_LINEAR = {
    np.dtype(np.float64): parts.linear_f64,
    np.dtype(np.float32): parts.linear_f32,
    np.dtype(np.uint16): parts.linear_bf16,
    np.dtype(np.uint32): parts.linear_q4_1,
    np.dtype(np.int32): parts.linear_q8_0,
}
"""By the dtype of the panels, which tells how they are stored."""

_ATTENTION_OF_STRIPS = (parts.attention,)
_ATTENTION_OF_FEW_ROWS = (parts.few_scores, parts.few_probabilities, parts.few_mixes)
"""The kernels that follow one another; each begins when all parts of the one before have ended."""

Weights = tuple[Panels, int]
"""Panels, and how many outputs they have."""


def pack_rows(control: I64, x: F64, packed: F64) -> None:
    """Interleave x's row tiles for ``linear``; nothing to do for FEW_ROWS."""
    if len(x) > FEW_ROWS:
        _run(control, _pack_job, parts.pack_rows, x, packed)


def linear(control: I64, x: F64, packed: F64, weights: Sequence[Weights], results: Sequence[F64]) -> None:
    """Compute ``y [rows, width] = x [rows, depth] * w`` for up to MOST_JOBS weights at once.

    ``packed`` is what ``pack_rows`` made of x; each sum is in ascending order.
    """
    jobs = np.empty((len(weights), JOB_WORDS), np.int64)
    for job, (w, width), y in zip(jobs, weights, results, strict=True):
        _linear_job(job, _LINEAR[w.dtype].address, x, packed, w, width, y)
    run_jobs(control, jobs)


def rms_norm(control: I64, x: F64, gain: F64, epsilon: float, y: F64) -> None:
    """Normalise the rows of x ``[rows, D]`` into y."""
    _run(control, _rms_norm_job, parts.rms_norm, x, gain, epsilon, y)


def rotate(control: I64, x: F64, cosines: F64, sines: F64, y: F64) -> None:
    """Turn each head of x's rows ``[rows, heads * head_width]`` by the row's angles ``[rows, pairs]``."""
    _run(control, _rotate_job, parts.rotate, x, cosines, sines, y)


def swiglu(control: I64, gate: F64, up: F64, y: F64) -> None:
    """Compute ``y = silu(gate) * up`` for arrays of one shape."""
    _run(control, _elementwise_job, parts.swiglu, 1 << 10, gate, up, y)


def add(control: I64, x: F64, branch: F64, y: F64) -> None:
    """Compute ``y = x + branch`` for arrays of one shape."""
    _run(control, _elementwise_job, parts.add, 1 << 14, x, branch, y)


def multiply(control: I64, x: F64, mask: F64, y: F64) -> None:
    """Compute ``y = x * mask`` for arrays of one shape; what a zero of the mask drops is +0.0."""
    _run(control, _elementwise_job, parts.multiply, 1 << 14, x, mask, y)


def attention(
    control: I64, q: F64, first: I64, last: I64, table: I64, keys: F64, values: F64, scale: float, y: F64
) -> bool:
    """Attend with rows q ``[T, heads * head_width]`` over a sequence's blocks into y.

    Row t sees the cache positions ``first[t] .. last[t]`` (last excluded). Returns whether every visible
    score was finite.
    """
    jobs = np.empty((1, JOB_WORDS), np.int64)
    heads, group = keys.shape[1], q.shape[1] // keys.shape[3] // keys.shape[1]
    few = len(q) * group <= STRIP_ROWS
    scores = np.empty(heads * len(q) * group * table.size * BLOCK if few else 0)
    finite = np.empty(MOST_PARTS, np.int64)
    _attention_job(jobs[0], q, first, last, table, keys, values, scale, y, finite, scores)
    for part in _ATTENTION_OF_FEW_ROWS if few else _ATTENTION_OF_STRIPS:
        jobs[0, 0] = part.address
        run_jobs(control, jobs)
    return all_set(finite)


def softmax(control: I64, x: F64, y: F64) -> None:
    """Turn each row of x ``[rows, n]`` into probabilities in y, or into NaN if one is not finite."""
    _run(control, _softmax_job, parts.softmax, x, y)


def log_normalisers(control: I64, z: F64, best: I64, log_tail: F64) -> None:
    """For each row of logits ``[rows, V]`` fill its first maximum's index and ``log1p(tail)``."""
    _run(control, _log_normaliser_job, parts.log_normaliser, z, best, log_tail)


def _run(control: I64, fill: Callable[..., None], part: Part, *arguments: object) -> None:
    jobs = np.empty((1, JOB_WORDS), np.int64)
    fill(jobs[0], part.address, *arguments)
    run_jobs(control, jobs)


@kernel
def _start(job: I64, code: int, work: int, grain: int, most: int) -> None:
    job[0] = code
    job[1] = max(1, min(work // grain, most, MOST_PARTS))


@kernel
def _pack_job(job: I64, code: int, x: F64, packed: F64) -> None:
    rows, depth = x.shape
    _start(job, code, rows * depth, 1 << 14, rows // TILE_ROWS)
    job[2], job[3], job[4], job[5] = rows, depth, x.ctypes.data, packed.ctypes.data


@kernel
def _linear_job(job: I64, code: int, x: F64, packed: F64, w: Panels, width: int, y: F64) -> None:
    rows, depth = x.shape
    _start(job, code, rows * depth * width, 1 << 15, width // (ABREAST * LANES))
    job[2], job[3], job[4] = rows, depth, width
    job[5], job[6], job[7], job[8] = x.ctypes.data, w.ctypes.data, y.ctypes.data, packed.ctypes.data
    job[9] = w.size


@kernel
def _rms_norm_job(job: I64, code: int, x: F64, gain: F64, epsilon: float, y: F64) -> None:
    rows, width = x.shape
    _start(job, code, rows * width, 1 << 13, rows)
    job[2], job[3], job[4], job[5] = rows, width, x.ctypes.data, gain.ctypes.data
    job[6], job[7] = float_bits(epsilon), y.ctypes.data


@kernel
def _rotate_job(job: I64, code: int, x: F64, cosines: F64, sines: F64, y: F64) -> None:
    rows, width = x.shape
    _start(job, code, rows * width, 1 << 13, rows)
    job[2], job[3], job[4], job[5] = rows, width, cosines.shape[1], x.ctypes.data
    job[6], job[7], job[8] = cosines.ctypes.data, sines.ctypes.data, y.ctypes.data


@kernel
def _elementwise_job(job: I64, code: int, grain: int, a: F64, b: F64, y: F64) -> None:
    _start(job, code, a.size, grain, a.size)
    job[2], job[3], job[4], job[5] = a.size, a.ctypes.data, b.ctypes.data, y.ctypes.data


@kernel
def _attention_job(
    job: I64,
    q: F64,
    first: I64,
    last: I64,
    table: I64,
    keys: F64,
    values: F64,
    scale: float,
    y: F64,
    finite: I64,
    scores: F64,
) -> None:
    rows, width = q.shape
    blocks, heads, _, head_width, _ = keys.shape
    visible = 0
    for row in range(rows):
        visible += last[row] - first[row]
    finite[:] = 1
    _start(job, 0, visible * width, 1 << 13 if scores.size else 1 << 15, rows * width // head_width)
    job[2], job[3], job[4], job[5], job[6], job[7] = rows, width, blocks, heads, head_width, values.shape[3]
    job[8], job[9], job[10], job[11] = q.ctypes.data, first.ctypes.data, last.ctypes.data, table.ctypes.data
    job[12], job[13], job[14] = keys.ctypes.data, values.ctypes.data, float_bits(scale)
    job[15], job[16], job[17] = y.ctypes.data, finite.ctypes.data, table.size
    job[18], job[19] = scores.ctypes.data, scores.size


@kernel
def _softmax_job(job: I64, code: int, x: F64, y: F64) -> None:
    rows, width = x.shape
    _start(job, code, rows * width, 1 << 12, rows)
    job[2], job[3], job[4], job[5] = rows, width, x.ctypes.data, y.ctypes.data


@kernel
def _log_normaliser_job(job: I64, code: int, z: F64, best: I64, log_tail: F64) -> None:
    rows, width = z.shape
    _start(job, code, rows * width, 1 << 13, rows)
    job[2], job[3] = rows, width
    job[4], job[5], job[6] = z.ctypes.data, best.ctypes.data, log_tail.ctypes.data
