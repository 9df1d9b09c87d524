"""The kernels that a team shares, as calls: each fills a job's row and runs it.

How many parts a call has depends on its size only. A part should take some ten microseconds: long
against taking it, short against waiting for the last one.
"""

from __future__ import annotations

import numpy as np

from zeroulp.model.kernels.arrays import F64, I64, Panels
from zeroulp.model.kernels.atomics import float_bits
from zeroulp.model.kernels.jit import kernel
from zeroulp.model.kernels.linear import FEW_ROWS, TILE_ROWS
from zeroulp.model.kernels import parts
from zeroulp.model.kernels.parts import JOB_WORDS
from zeroulp.model.kernels.team import run_job
from zeroulp.model.kernels.tile import LANES

MOST_PARTS = 64

_LINEAR = {8: parts.linear_f64, 4: parts.linear_f32, 2: parts.linear_bf16}


def pack_rows(control: I64, x: F64, packed: F64) -> None:
    """Interleave x's row tiles for ``linear``; nothing to do for FEW_ROWS."""
    if len(x) > FEW_ROWS:
        run_job(control, _pack_job(parts.pack_rows.address, x, packed))


def linear(control: I64, x: F64, packed: F64, w: Panels, depth: int, width: int, y: F64) -> None:
    """Compute ``y [rows, width] = x [rows, depth] * w``, w in panels; each sum in ascending order.

    ``packed`` is what ``pack_rows`` made of x.
    """
    run_job(control, _linear_job(_LINEAR[w.itemsize].address, x, packed, w, depth, width, y))


def rms_norm(control: I64, x: F64, gain: F64, epsilon: float, y: F64) -> None:
    """Normalise the rows of x ``[rows, D]`` into y."""
    run_job(control, _rms_norm_job(parts.rms_norm.address, x, gain, epsilon, y))


def rotate(control: I64, x: F64, cosines: F64, sines: F64, y: F64) -> None:
    """Turn each head of each row of x ``[rows, heads * head_width]`` by its row's angles ``[rows, pairs]``."""
    run_job(control, _rotate_job(parts.rotate.address, x, cosines, sines, y))


def swiglu(control: I64, gate: F64, up: F64, y: F64) -> None:
    """Compute ``y = silu(gate) * up`` for arrays of one shape."""
    run_job(control, _elementwise_job(parts.swiglu.address, 1 << 10, gate, up, y))


def add(control: I64, x: F64, branch: F64, y: F64) -> None:
    """Compute ``y = x + branch`` for arrays of one shape."""
    run_job(control, _elementwise_job(parts.add.address, 1 << 14, x, branch, y))


def attention(
    control: I64, q: F64, first: I64, last: I64, table: I64, keys: F64, values: F64, scale: float, y: F64
) -> bool:
    """Attend with rows q ``[T, heads * head_width]`` over a sequence's blocks into y.

    Row t sees the cache positions ``first[t] .. last[t]`` (last excluded). Returns whether every visible
    score was finite.
    """
    finite = np.ones(MOST_PARTS, np.int64)
    run_job(control, _attention_job(parts.attention.address, q, first, last, table, keys, values, scale, y, finite))
    return bool(finite.all())


def log_normalisers(control: I64, z: F64, best: I64, log_tail: F64) -> None:
    """For each row of logits ``[rows, V]`` fill its first maximum's index and ``log1p(tail)``."""
    run_job(control, _log_normaliser_job(parts.log_normaliser.address, z, best, log_tail))


@kernel
def _job(code: int, work: int, grain: int, most: int) -> I64:
    job = np.empty(JOB_WORDS, np.int64)
    job[0] = code
    job[1] = max(1, min(work // grain, most, MOST_PARTS))
    return job


@kernel
def _pack_job(code: int, x: F64, packed: F64) -> I64:
    rows, depth = x.shape
    job = _job(code, rows * depth, 1 << 14, rows // TILE_ROWS)
    job[2], job[3], job[4], job[5] = rows, depth, x.ctypes.data, packed.ctypes.data
    return job


@kernel
def _linear_job(code: int, x: F64, packed: F64, w: Panels, depth: int, width: int, y: F64) -> I64:
    rows = x.shape[0]
    job = _job(code, rows * depth * width, 1 << 16, width // (4 * LANES))
    job[2], job[3], job[4] = rows, depth, width
    job[5], job[6], job[7], job[8] = x.ctypes.data, w.ctypes.data, y.ctypes.data, packed.ctypes.data
    return job


@kernel
def _rms_norm_job(code: int, x: F64, gain: F64, epsilon: float, y: F64) -> I64:
    rows, width = x.shape
    job = _job(code, rows * width, 1 << 13, rows)
    job[2], job[3], job[4], job[5] = rows, width, x.ctypes.data, gain.ctypes.data
    job[6], job[7] = float_bits(epsilon), y.ctypes.data
    return job


@kernel
def _rotate_job(code: int, x: F64, cosines: F64, sines: F64, y: F64) -> I64:
    rows, width = x.shape
    job = _job(code, rows * width, 1 << 13, rows)
    job[2], job[3], job[4], job[5] = rows, width, cosines.shape[1], x.ctypes.data
    job[6], job[7], job[8] = cosines.ctypes.data, sines.ctypes.data, y.ctypes.data
    return job


@kernel
def _elementwise_job(code: int, grain: int, a: F64, b: F64, y: F64) -> I64:
    job = _job(code, a.size, grain, a.size)
    job[2], job[3], job[4], job[5] = a.size, a.ctypes.data, b.ctypes.data, y.ctypes.data
    return job


@kernel
def _attention_job(
    code: int, q: F64, first: I64, last: I64, table: I64, keys: F64, values: F64, scale: float, y: F64, finite: I64
) -> I64:
    rows, width = q.shape
    blocks, heads, _, head_width, _ = keys.shape
    visible = 0
    for row in range(rows):
        visible += last[row] - first[row]
    job = _job(code, visible * width, 1 << 15, rows * width // head_width)
    job[2], job[3], job[4], job[5], job[6], job[7] = rows, width, blocks, heads, head_width, values.shape[3]
    job[8], job[9], job[10], job[11] = q.ctypes.data, first.ctypes.data, last.ctypes.data, table.ctypes.data
    job[12], job[13], job[14] = keys.ctypes.data, values.ctypes.data, float_bits(scale)
    job[15], job[16], job[17] = y.ctypes.data, finite.ctypes.data, table.size
    return job


@kernel
def _log_normaliser_job(code: int, z: F64, best: I64, log_tail: F64) -> I64:
    rows, width = z.shape
    job = _job(code, rows * width, 1 << 13, rows)
    job[2], job[3] = rows, width
    job[4], job[5], job[6] = z.ctypes.data, best.ctypes.data, log_tail.ctypes.data
    return job
