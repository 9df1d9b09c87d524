"""Small whole GGUF files, written by gguf's own writer."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from gguf import GGUFWriter
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType
from gguf.quants import dequantize
from numpy.typing import NDArray


def readable_types() -> list[GGMLQuantizationType]:
    """Return every type that gguf's own code turns into numbers, and F64."""
    readable = [GGMLQuantizationType.F64]
    for kind, (_, size) in GGML_QUANT_SIZES.items():
        try:
            dequantize(np.zeros((1, size), np.uint8), kind)
        except NotImplementedError:
            continue
        readable.append(kind)
    return readable


def random_blocks(kind: GGMLQuantizationType, rows: int, blocks: int) -> NDArray[np.uint8]:
    """Return ``[rows, row_bytes]`` of arbitrary bits: infinities and NaN are among the values."""
    size = GGML_QUANT_SIZES[kind][1]
    return np.random.default_rng(int(kind)).integers(0, 256, (rows, blocks * size), np.uint8)


def write_every_kind(path: Path) -> None:
    """Write a file with every type of metadata value and of tensor."""
    writer = GGUFWriter(path, "sample")
    writer.add_uint8("an.u8", 255)
    writer.add_int8("an.i8", -128)
    writer.add_uint16("an.u16", 65535)
    writer.add_int16("an.i16", -32768)
    writer.add_uint32("an.u32", 2**32 - 1)
    writer.add_int32("an.i32", -(2**31))
    writer.add_uint64("an.u64", 2**64 - 1)
    writer.add_int64("an.i64", -(2**63))
    writer.add_float32("an.f32", 0.1)
    writer.add_float64("an.f64", 0.1)
    writer.add_bool("a.true", True)
    writer.add_bool("a.false", False)
    writer.add_string("an.empty_string", "")
    writer.add_string("a.string", "zéro ulp \N{SNOWMAN}")
    writer.add_array("an.array.of_int", [1, -2, 3])
    writer.add_array("an.array.of_float", [0.5, 0.1])
    writer.add_array("an.array.of_bool", [True, False])
    writer.add_array("an.array.of_string", ["", "a", "ü"])
    for kind in readable_types():
        writer.add_tensor(f"tensor.{kind.name}", random_blocks(kind, 3, 2), raw_dtype=kind)
    writer.add_tensor("cube", np.arange(24, dtype=np.float32).reshape(2, 3, 4))
    finish(writer)


def finish(writer: GGUFWriter) -> None:
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write_small(path: Path) -> None:
    """Write a file of some hundred bytes for tests that open it once a byte."""
    writer = GGUFWriter(path, "sample")
    writer.add_uint32("answer", 42)
    writer.add_bool("flag", True)
    writer.add_float32("pi", 3.25)
    writer.add_array("words", ["ab", "", "cde"])
    writer.add_array("numbers", [1, 2, 3])
    writer.add_array("flags", [True, False])
    writer.add_tensor("first", np.arange(6, dtype=np.float32).reshape(2, 3))
    writer.add_tensor(
        "second", random_blocks(GGMLQuantizationType.Q4_1, 2, 1), raw_dtype=GGMLQuantizationType.Q4_1
    )
    finish(writer)
