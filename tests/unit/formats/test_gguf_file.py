from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from gguf import GGUFReader, GGUFWriter
from gguf.constants import GGMLQuantizationType, GGUFValueType
from gguf.quants import dequantize

from unit.formats import gguf_bytes as by_hand
from unit.formats.gguf_samples import finish, random_blocks, readable_types, write_every_kind
from zeroulp.model.errors import UnsupportedModel
from zeroulp.model.formats.gguf_file import GgufFile


def assert_reads_as_ggufs_reader_does(path: Path) -> None:
    ours, theirs = GgufFile.open(path), GGUFReader(path)
    expected = {key: field.contents() for key, field in theirs.fields.items() if not key.startswith("GGUF.")}
    assert list(ours.metadata) == list(expected)
    for key, value in expected.items():
        assert ours.metadata[key] == value
        assert type(ours.metadata[key]) is type(value)
    assert list(ours.tensors) == [tensor.name for tensor in theirs.tensors]
    for tensor in theirs.tensors:
        mine = ours.tensors[tensor.name]
        assert mine.shape == tuple(reversed(tensor.shape.tolist()))
        assert mine.type_name == tensor.tensor_type.name
        assert (mine.offset, mine.nbytes) == (tensor.data_offset, tensor.n_bytes)
        assert ours.raw(tensor.name).tobytes() == tensor.data.tobytes()
        values = np.asarray(tensor.data)
        if tensor.tensor_type is not GGMLQuantizationType.F64:
            with np.errstate(all="ignore"):
                values = dequantize(values, tensor.tensor_type)
        read = ours.read(tensor.name)
        assert read.shape == mine.shape
        assert read.dtype == values.dtype
        assert read.tobytes() == values.tobytes()


def test_reads_every_kind_of_value_and_tensor_as_ggufs_own_reader(tmp_path: Path) -> None:
    path = tmp_path / "every.gguf"
    write_every_kind(path)
    assert len(GgufFile.open(path).tensors) == len(readable_types()) + 1 > 25
    assert_reads_as_ggufs_reader_does(path)


@pytest.mark.real_model
def test_reads_the_real_model_as_ggufs_own_reader(real_model_path: Path) -> None:
    assert_reads_as_ggufs_reader_does(real_model_path)


def test_dimensions_are_reversed_into_row_major_order(tmp_path: Path) -> None:
    path = tmp_path / "cube.gguf"
    values = np.arange(24, dtype="<f4")
    path.write_bytes(by_hand.gguf(tensors=[by_hand.tensor("cube", (4, 3, 2))], data=values.tobytes()))
    read = GgufFile.open(path).read("cube")
    assert read.shape == (2, 3, 4)
    assert read.tobytes() == values.tobytes()


def test_f64_stays_f64_and_bf16_and_f16_widen_exactly(tmp_path: Path) -> None:
    path = tmp_path / "floats.gguf"
    writer = GGUFWriter(path, "sample")
    writer.add_tensor("f64", np.array([0.1, -0.0, np.inf, 5e-324]))
    writer.add_tensor("f16", np.array([0.1, -0.0, np.inf, 6e-8], np.float16))
    bf16 = np.array([0x3DCD, 0x8000, 0x7F80, 0x0001], np.uint16)
    writer.add_tensor("bf16", bf16.view(np.uint8), raw_dtype=GGMLQuantizationType.BF16)
    finish(writer)
    file = GgufFile.open(path)
    assert file.read("f64").dtype == np.float64
    assert file.read("f64").tobytes() == np.array([0.1, -0.0, np.inf, 5e-324]).tobytes()
    assert (
        file.read("f16").tobytes()
        == np.array([0.1, -0.0, np.inf, 6e-8], np.float16).astype(np.float32).tobytes()
    )
    assert file.read("bf16").tobytes() == (bf16.astype(np.uint32) << 16).tobytes()


def test_q4_1_is_one_rounded_product_and_one_rounded_sum(tmp_path: Path) -> None:
    blocks = random_blocks(GGMLQuantizationType.Q4_1, 64, 3)
    path = tmp_path / "q4_1.gguf"
    writer = GGUFWriter(path, "sample")
    writer.add_tensor("w", blocks, raw_dtype=GGMLQuantizationType.Q4_1)
    finish(writer)
    expected = np.empty((64 * 3, 32), np.float32)
    for row, block in enumerate(blocks.reshape(-1, 20)):
        scale, minimum = block[:4].view(np.float16).astype(np.float32)
        for i in range(32):
            q = np.float32(block[4 + i % 16] >> (4 * (i // 16)) & 15)
            with np.errstate(all="ignore"):
                product = np.float32(scale * q)
                expected[row, i] = np.float32(product + minimum)
    assert GgufFile.open(path).read("w").tobytes() == expected.tobytes()


@pytest.mark.parametrize("kind", [GGMLQuantizationType.Q8_0, GGMLQuantizationType.F32])
def test_a_tensor_of_many_slabs_equals_one_dequantised_at_once(
    tmp_path: Path, kind: GGMLQuantizationType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zeroulp.model.formats.gguf_file._SLAB_VALUES", 100)
    blocks = random_blocks(kind, 37, 32)
    path = tmp_path / "slabs.gguf"
    writer = GGUFWriter(path, "sample")
    writer.add_tensor("w", blocks, raw_dtype=kind)
    finish(writer)
    file = GgufFile.open(path)
    with np.errstate(all="ignore"):
        assert file.read("w").tobytes() == dequantize(blocks, kind).tobytes()
        assert file.read_rows("w", 5, 9).tobytes() == dequantize(blocks[5:9], kind).tobytes()


def test_what_was_read_is_writable_and_no_part_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "one.gguf"
    path.write_bytes(by_hand.gguf(tensors=[by_hand.tensor("w", (2,))], data=bytes(8)))
    file = GgufFile.open(path)
    file.read("w")[0] = 7.0
    assert file.read("w").tobytes() == bytes(8)
    assert not file.raw("w").flags.writeable


def test_a_type_without_numbers_is_listed_and_refused_on_read(tmp_path: Path) -> None:
    path = tmp_path / "integers.gguf"
    path.write_bytes(
        by_hand.gguf(tensors=[by_hand.tensor("ids", (2,), GGMLQuantizationType.I32)], data=bytes(8))
    )
    file = GgufFile.open(path)
    assert file.tensors["ids"].nbytes == 8
    with pytest.raises(UnsupportedModel, match=r"'ids'.*I32"):
        file.read("ids")


@pytest.mark.parametrize("version", [2, 3])
def test_versions_two_and_three_are_read(tmp_path: Path, version: int) -> None:
    path = tmp_path / "version.gguf"
    path.write_bytes(by_hand.gguf([by_hand.entry("a", GGUFValueType.UINT8, b"\x07")], version=version))
    assert GgufFile.open(path).metadata == {"a": 7}


def test_nested_arrays_keep_their_nesting(tmp_path: Path) -> None:
    numbers = by_hand.array(GGUFValueType.UINT8, [b"\1", b"\2"])
    words = by_hand.array(GGUFValueType.STRING, [by_hand.text("x")])
    nested = by_hand.array(GGUFValueType.ARRAY, [numbers, words])
    path = tmp_path / "nested.gguf"
    path.write_bytes(by_hand.gguf([by_hand.entry("a", GGUFValueType.ARRAY, nested)]))
    assert GgufFile.open(path).metadata == {"a": [[1, 2], ["x"]]}


@pytest.mark.parametrize("align", [1, 8, 32, 256])
def test_the_files_own_alignment_places_the_data(tmp_path: Path, align: int) -> None:
    path = tmp_path / "aligned.gguf"
    data = np.arange(4, dtype="<f4").tobytes()
    path.write_bytes(by_hand.gguf([by_hand.alignment(align)], [by_hand.tensor("w", (4,))], data, align=align))
    file = GgufFile.open(path)
    assert file.tensors["w"].offset % align == 0
    assert file.read("w").tobytes() == data
