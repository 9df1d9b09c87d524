"""Quantised weights with the values that the format's words give them."""

from __future__ import annotations

import numpy as np

from zeroulp.model.kernels.arrays import F64
from zeroulp.model.kernels.stored import BLOCK_TERMS
from zeroulp.model.packing import PackedMatrix
from zeroulp.model.quantised import Bytes, pack_blocks

F32 = np.float32


def block(rng: np.random.Generator, kind: str) -> bytes:
    """One block of a file: float16 scale (and a minimum of up to 256 times it), then the numbers."""
    exponents = rng.integers(-10, 3) + np.array([0, rng.integers(-8, 9)])
    halves = (rng.choice([-1, 1], 2) * rng.uniform(1, 2, 2) * 2.0**exponents).astype(np.float16)
    halves[rng.random(2) < 0.05] = 0
    if kind == "Q4_1":
        return halves.tobytes() + rng.integers(0, 256, 16, np.uint8).tobytes()
    return halves[:1].tobytes() + rng.integers(-128, 128, 32, np.int8).tobytes()


def value(kind: str, data: bytes, index: int) -> float:
    """Number ``index`` of a block by the words of the format, in single precision."""
    scale = F32(np.frombuffer(data, "<f2", 1)[0])
    if kind == "Q8_0":
        return float(scale * F32(np.frombuffer(data, np.int8, 1, 2 + index)[0]))
    minimum, byte = F32(np.frombuffer(data, "<f2", 1, 2)[0]), data[4 + index % 16]
    number = byte & 15 if index < 16 else byte >> 4
    return float(F32(scale * F32(number)) + minimum)


def matrix(rng: np.random.Generator, kind: str, depth: int, width: int) -> tuple[F64, PackedMatrix]:
    blocks = [[block(rng, kind) for _ in range(depth // BLOCK_TERMS)] for _ in range(width)]
    values = [[value(kind, row[k // BLOCK_TERMS], k % BLOCK_TERMS) for row in blocks] for k in range(depth)]
    raw: Bytes = np.array([list(b"".join(row)) for row in blocks], np.uint8)
    return np.array(values), pack_blocks(kind, raw, depth)
