"""Whatever a safetensors file holds, it loads or it is refused, in memory that the file pays for."""

from __future__ import annotations

import json
import os
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from unit.formats.file_memory import CONSTANT_BYTES, paid_for_by
from unit.formats.safetensors_samples import TINY, parts_of, write_parts, write_tiny
from zeroulp.model.errors import MalformedFile, ModelRefused
from zeroulp.model.formats.safetensors import SafetensorsCheckpoint
from zeroulp.model.formats.safetensors.file import SafetensorsFile
from zeroulp.model.formats.safetensors.header import LARGEST_HEADER

# Python objects for JSON's smallest items (an empty list of three bytes) are this much larger.
BYTES_PER_FILE_BYTE = 48

GAIN = "final_norm.gain"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return write_tiny(tmp_path_factory.mktemp("whole") / "tiny.safetensors").read_bytes()


@pytest.fixture(scope="module")
def damaged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("damaged") / "damaged.safetensors"


def open_and_read(path: Path) -> bool:
    """Return whether the file loads; read it all if it does, within the memory it may take."""
    try:
        with paid_for_by(path, BYTES_PER_FILE_BYTE), SafetensorsCheckpoint.open(path) as checkpoint:
            shapes = checkpoint.configuration.parameter_shapes()
            assert {name: values.shape for name, values in checkpoint.parameters()} == shapes
    except ModelRefused:
        return False
    return True


def test_the_undamaged_file_loads(whole: bytes, damaged: Path) -> None:
    damaged.write_bytes(whole)
    assert open_and_read(damaged)


def test_every_truncation_is_malformed(whole: bytes, damaged: Path) -> None:
    damaged.write_bytes(whole)
    for length in reversed(range(len(whole))):
        os.truncate(damaged, length)
        with pytest.raises(MalformedFile, match=r"needs .* (left|has)|empty"):
            SafetensorsFile.open(damaged)


def test_bytes_after_the_end_are_malformed(whole: bytes, damaged: Path) -> None:
    damaged.write_bytes(whole + b"\0")
    with pytest.raises(MalformedFile, match="1 bytes after the last tensor belong to no tensor"):
        SafetensorsFile.open(damaged)


def test_every_single_byte_of_the_header_set_to_its_extremes(whole: bytes, damaged: Path) -> None:
    header = 8 + int.from_bytes(whole[:8], "little")
    for place in range(header):
        for value in (0x00, 0x22, 0x39, 0xFF):
            damaged.write_bytes(whole[:place] + bytes([value]) + whole[place + 1 :])
            open_and_read(damaged)


# One path is overwritten by every example, and examples do not depend on each other.
shared = settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@shared
@given(changes=st.lists(st.tuples(st.integers(0, 2**20), st.integers(0, 255)), min_size=1, max_size=6))
def test_bytes_changed_at_random(whole: bytes, damaged: Path, changes: list[tuple[int, int]]) -> None:
    data = bytearray(whole)
    header = 8 + int.from_bytes(whole[:8], "little")
    for place, value in changes:
        data[place % header] = value
    damaged.write_bytes(data)
    open_and_read(damaged)


@shared
@given(field=st.sampled_from(["dtype", "shape", "data_offsets", "more"]), value=json_values)
def test_any_value_in_a_tensors_entry(whole: bytes, damaged: Path, field: str, value: Any) -> None:
    damaged.write_bytes(whole)
    header, data = parts_of(damaged)
    unchanged = header[GAIN].get(field) == value and type(value) is list
    header[GAIN][field] = value
    write_parts(damaged, header, data)
    assert open_and_read(damaged) == unchanged


@shared
@given(name=st.sampled_from(sorted(TINY.__dataclass_fields__)), value=json_values)
def test_any_value_in_the_configuration(whole: bytes, damaged: Path, name: str, value: Any) -> None:
    damaged.write_bytes(whole)
    header, data = parts_of(damaged)
    configuration = json.loads(header["__metadata__"]["configuration"])
    configuration[name] = value
    header["__metadata__"]["configuration"] = json.dumps(configuration)
    open_and_read(write_parts(damaged, header, data))


@shared
@given(header=json_values, data=st.binary(max_size=40))
def test_any_json_for_a_header(damaged: Path, header: Any, data: bytes) -> None:
    assert not open_and_read(write_parts(damaged, json.dumps(header), data))


@shared
@given(data=st.binary(max_size=64))
def test_any_bytes(damaged: Path, data: bytes) -> None:
    damaged.write_bytes(data)
    assert not open_and_read(damaged)


@pytest.mark.parametrize("length", [2**63, 2**64 - 1, 10**9])
def test_a_header_longer_than_the_file(whole: bytes, damaged: Path, length: int) -> None:
    damaged.write_bytes(length.to_bytes(8, "little") + whole[8:])
    with pytest.raises(MalformedFile, match=rf"the header needs {length} bytes, and \d+ are left"):
        SafetensorsFile.open(damaged)


def test_a_header_that_is_too_long_is_not_read(damaged: Path) -> None:
    damaged.write_bytes((LARGEST_HEADER + 1).to_bytes(8, "little"))
    os.truncate(damaged, LARGEST_HEADER + 100)  # a hole: nothing is on the disk
    tracemalloc.start()
    try:
        with pytest.raises(MalformedFile, match=rf"{LARGEST_HEADER} are allowed"):
            SafetensorsFile.open(damaged)
        assert tracemalloc.get_traced_memory()[1] < CONSTANT_BYTES
    finally:
        tracemalloc.stop()
