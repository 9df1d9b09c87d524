"""Whatever happens to a file's bytes, it loads or it is refused, in memory that the file pays for."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from unit.formats.file_memory import paid_for_by
from unit.formats.gguf_samples import write_every_kind, write_small
from unit.formats.llama_samples import write_llama
from zeroulp.model.errors import MalformedFile, ModelRefused
from zeroulp.model.formats.gguf_file import GgufFile
from zeroulp.model.formats.llama import LlamaCheckpoint

# Python objects for a file's smallest items (a 13-byte key, a 33-byte tensor) are this much larger.
BYTES_PER_FILE_BYTE = 32

EDGES = [0, 1, 2, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**61, 2**62, 2**63 - 1, 2**63, 2**64 - 1]


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("small") / "small.gguf"
    write_small(path)
    return path.read_bytes()


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return write_llama(tmp_path_factory.mktemp("llama") / "llama.gguf").read_bytes()


@pytest.fixture(scope="module")
def damaged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("damaged") / "damaged.gguf"


def open_and_read(path: Path) -> bool:
    """Return whether the file loads; read it all if it does, within the memory it may take."""
    try:
        with paid_for_by(path, BYTES_PER_FILE_BYTE):
            file = GgufFile.open(path)
            for name in file.tensors:
                values = file.read(name)
                assert values.shape == file.tensors[name].shape
    except ModelRefused:
        return False
    return True


def test_the_undamaged_files_load(small: bytes, llama: bytes, damaged: Path) -> None:
    damaged.write_bytes(small)
    assert open_and_read(damaged)
    damaged.write_bytes(llama)
    assert open_and_read(damaged)
    LlamaCheckpoint.open(damaged)


def test_every_truncation_is_malformed(small: bytes, damaged: Path) -> None:
    damaged.write_bytes(small)
    whole = GgufFile.open(damaged)
    end = max(tensor.offset + tensor.nbytes for tensor in whole.tensors.values())
    # What follows the last tensor is padding; without it, nothing is missing.
    assert end < len(small)
    for length in reversed(range(len(small))):
        os.truncate(damaged, length)
        if length >= end:
            assert open_and_read(damaged)
            continue
        with pytest.raises(MalformedFile, match=r"needs .* left|empty"):
            GgufFile.open(damaged)


def test_truncations_of_a_file_with_every_kind_are_malformed(tmp_path: Path) -> None:
    path = tmp_path / "every.gguf"
    write_every_kind(path)
    end = max(tensor.offset + tensor.nbytes for tensor in GgufFile.open(path).tensors.values())
    # A prime step: every kind is cut in many places, the small file above in all of them.
    for length in range(end - 1, -1, -17):
        os.truncate(path, length)
        with pytest.raises(MalformedFile):
            GgufFile.open(path)


def test_every_single_byte_set_to_its_extremes(small: bytes, damaged: Path) -> None:
    for place in range(len(small)):
        for value in (0x00, 0xFF):
            damaged.write_bytes(small[:place] + bytes([value]) + small[place + 1 :])
            open_and_read(damaged)


# One path is overwritten by every example, and examples do not depend on each other.
shared = settings(
    max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@shared
@given(changes=st.lists(st.tuples(st.integers(0, 2**20), st.integers(0, 255)), min_size=1, max_size=12))
def test_bytes_changed_at_random(small: bytes, damaged: Path, changes: list[tuple[int, int]]) -> None:
    data = bytearray(small)
    for place, value in changes:
        data[place % len(data)] = value
    damaged.write_bytes(data)
    open_and_read(damaged)


@shared
@given(place=st.integers(0, 2**20), value=st.sampled_from(EDGES), width=st.sampled_from([4, 8]))
def test_fields_set_to_edges(small: bytes, damaged: Path, place: int, value: int, width: int) -> None:
    place %= len(small) - 8
    field = (value % 2 ** (8 * width)).to_bytes(width, "little")
    damaged.write_bytes(small[:place] + field + small[place + width :])
    open_and_read(damaged)


@shared
@given(tail=st.binary(max_size=200), tensors=st.integers(0, 3), keys=st.integers(0, 3))
def test_any_bytes_after_a_header(damaged: Path, tail: bytes, tensors: int, keys: int) -> None:
    counts = tensors.to_bytes(8, "little") + keys.to_bytes(8, "little")
    damaged.write_bytes(b"GGUF\3\0\0\0" + counts + tail)
    open_and_read(damaged)


@settings(shared, max_examples=300)
@given(changes=st.lists(st.tuples(st.integers(0, 2**20), st.integers(0, 255)), min_size=1, max_size=4))
def test_a_checkpoint_with_changed_bytes_loads_or_is_refused(
    llama: bytes, damaged: Path, changes: list[tuple[int, int]]
) -> None:
    data = bytearray(llama)
    # The header is where a change can confuse; the data is any bytes.
    header = data.index(b"blk.1.ffn_down.weight") + 64
    for place, value in changes:
        data[place % header] = value
    damaged.write_bytes(data)
    try:
        checkpoint = LlamaCheckpoint.open(damaged)
    except ModelRefused:
        return
    shapes = checkpoint.configuration.parameter_shapes()
    assert {name: values.shape for name, values in checkpoint.parameters()} == shapes
