"""Quantised blocks of a model file, rearranged into panels without changing a bit of any value."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from zeroulp.model.kernels.arrays import Panels
from zeroulp.model.kernels.stored import BLOCK_TERMS, Q4_1_WORDS, Q8_0_WORDS
from zeroulp.model.kernels.vectors import LANES
from zeroulp.model.packing import PackedMatrix, aligned_zeros

Bytes = NDArray[np.uint8]
Words = NDArray[np.uint32]

_SCALE_BYTES = 2
_Q4_1_BYTES = 2 * _SCALE_BYTES + BLOCK_TERMS // 2


def packs(storage_type: str, raw: Bytes) -> bool:
    """Tell whether a file's rows ``[outputs, row_bytes]`` are kept as the blocks that they are.

    Others are widened when they are loaded: types that the kernels do not know, and Q4_1 with a block in
    which the format itself rounds.
    """
    return storage_type in _READERS and (storage_type != "Q4_1" or _is_exact(raw))


def pack_blocks(storage_type: str, raw: Bytes, depth: int) -> PackedMatrix:
    """Pack raw rows ``[outputs, row_bytes]`` that `packs` approves, each the blocks of ``depth`` inputs."""
    words, dtype, read = _READERS[storage_type]
    outputs = len(raw)
    panels = -(-outputs // LANES)
    stored: Panels = aligned_zeros(panels * (depth // BLOCK_TERMS) * words, dtype)
    # [panels, blocks, words of a lane, LANES]
    target = stored.view(np.uint32).reshape(panels, depth // BLOCK_TERMS, words // LANES, LANES)
    blocks = read(raw.reshape(outputs, depth // BLOCK_TERMS, -1))  # [outputs, blocks, words of a lane]
    whole = outputs // LANES
    lanes = blocks[: whole * LANES].reshape(whole, LANES, *blocks.shape[1:])  # [panels, LANES, blocks, words]
    target[:whole] = lanes.transpose(0, 2, 3, 1)
    if whole < panels:
        target[whole, :, :, : outputs - whole * LANES] = blocks[whole * LANES :].transpose(1, 2, 0)
    return PackedMatrix(depth, outputs, stored)


def _is_exact(raw: Bytes) -> bool:
    """Tell whether ``scale * q + minimum`` is a float32, without rounding, for every q in every Q4_1 block.

    The values of a block are multiples of the smaller of its two numbers' last places; what is no larger
    than 2^24 of those fits. A block fails whose minimum is some thousand times its scale.
    """
    halves = np.ascontiguousarray(raw.reshape(-1, _Q4_1_BYTES)[:, : 2 * _SCALE_BYTES]).view(np.float16)
    with np.errstate(invalid="ignore"):  # an infinity or a NaN is no float32 that is exact
        places = np.where(halves == 0.0, np.inf, np.spacing(np.abs(halves)).astype(np.float64))
        scale, minimum = halves[:, 0].astype(np.float64), halves[:, 1].astype(np.float64)
        largest = np.maximum(np.abs(minimum), np.abs(minimum + 15.0 * scale))
        return bool(np.all(largest <= 2.0**24 * places.min(axis=1)))


def _scales(raw: Bytes, index: int) -> Words:
    """Return the ``index``-th float16 of each block as the bits of a float32 ``[outputs, blocks, 1]``."""
    halves = np.ascontiguousarray(raw[..., index * _SCALE_BYTES : (index + 1) * _SCALE_BYTES])
    return halves.view(np.float16).astype(np.float32).view(np.uint32)


def _q4_1(raw: Bytes) -> Words:
    """Return scale, minimum and four words of eight 4-bit numbers of each block.

    The file keeps inputs j and j + 16 in the halves of byte j.
    """
    codes = raw[..., 2 * _SCALE_BYTES :]
    numbers = np.concatenate([codes & 15, codes >> 4], axis=-1)  # [outputs, blocks, 32]
    pairs = numbers[..., 0::2] | numbers[..., 1::2] << 4  # [outputs, blocks, 16]: the words, little-endian
    words = np.ascontiguousarray(pairs).view("<u4").astype(np.uint32, copy=False)
    return np.concatenate([_scales(raw, 0), _scales(raw, 1), words], axis=-1)


def _q8_0(raw: Bytes) -> Words:
    """Return scale and eight words of four signed bytes of each block."""
    words = np.ascontiguousarray(raw[..., _SCALE_BYTES:]).view("<u4").astype(np.uint32, copy=False)
    return np.concatenate([_scales(raw, 0), words], axis=-1)


_READERS = {"Q4_1": (Q4_1_WORDS, np.uint32, _q4_1), "Q8_0": (Q8_0_WORDS, np.int32, _q8_0)}
