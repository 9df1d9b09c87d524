"""Files of tensors come back as they were written, and damage is told by one error."""

from __future__ import annotations

import json
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors import TensorSpec, serialize_file
from safetensors.numpy import save_file

from unit.client.trace_files.files import FACTS, ORDER, tensors, written
from zeroulp.client.trace_files.errors import TraceFileBroken
from zeroulp.client.trace_files.facts import Facts, facts_of
from zeroulp.client.trace_files.trace_file import read, write

SUFFIXES = (".npz", ".safetensors")


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_tensors_facts_and_order_come_back(tmp_path: Path, suffix: str) -> None:
    arrays = tensors()
    arrays["logits"][0, :4] = [np.nan, -0.0, np.inf, 5e-324]
    found = read(written(tmp_path / f"file{suffix}", arrays))
    assert list(found.tensors) == list(ORDER)
    assert found.facts == FACTS
    for name, values in arrays.items():
        assert found.type_of(name) == "float64"
        assert found.widened(name).tobytes() == values.tobytes()
        assert found.positions_of(name).tolist() == [4, 5, 6]
    assert [path.name for path in tmp_path.iterdir()] == [f"file{suffix}"]
    (tmp_path / "other").touch()
    assert (tmp_path / f"file{suffix}").stat().st_mode == (tmp_path / "other").stat().st_mode


def test_other_programs_can_read_the_files(tmp_path: Path) -> None:
    arrays = tensors()
    with np.load(written(tmp_path / "file.npz")) as archive:
        assert {name: archive[name].tobytes() for name in arrays} == {
            n: a.tobytes() for n, a in arrays.items()
        }
        metadata = json.loads(archive["__metadata__"].tobytes())
    assert json.loads(metadata["token_ids"]) == [5, 6, 7, 8]
    assert metadata["parameters_digest"] == "ab" * 32


def test_files_of_other_programs_say_less(tmp_path: Path) -> None:
    arrays = {name: values.astype(np.float32) for name, values in tensors().items()}
    np.savez(tmp_path / "file.npz", a=arrays["embed"], b=arrays["logits"].astype(">f4"))
    save_file(arrays, tmp_path / "file.safetensors")
    found = read(tmp_path / "file.npz")
    assert (list(found.tensors), found.facts) == (["a", "b"], Facts())
    assert found.positions_of("a").tolist() == [0, 1, 2]
    assert (found.type_of("a"), found.widened("a").tolist()) == ("float32", arrays["embed"].tolist())
    assert read(tmp_path / "file.safetensors").facts == Facts()


def test_bfloat16_is_the_upper_half_of_a_float32(tmp_path: Path) -> None:
    wide = np.array([[1.0, -2.5, 3.1415927], [1e30, -0.0, np.inf]], np.float32)
    halves = (wide.view(np.uint32) >> 16).astype(np.uint16)
    spec = TensorSpec(dtype="bfloat16", shape=(2, 3), data_ptr=halves.ctypes.data, data_len=halves.nbytes)
    serialize_file({"x": spec}, tmp_path / "file.safetensors")
    found = read(tmp_path / "file.safetensors")
    want = (halves.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    assert found.type_of("x") == "bfloat16"
    assert found.widened("x").tobytes() == want.tobytes()


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_tensor_of_whole_numbers_is_refused(tmp_path: Path, suffix: str) -> None:
    arrays: dict[str, Any] = {"x": np.ones((2, 2)), "ids": np.ones(3, np.int64)}
    write(tmp_path / f"file{suffix}", arrays, Facts())
    with pytest.raises(TraceFileBroken, match="its tensor ids is of type"):
        read(tmp_path / f"file{suffix}")


def test_names_and_folders(tmp_path: Path) -> None:
    with pytest.raises(TraceFileBroken, match=r"should end in \.npz or \.safetensors"):
        read(tmp_path / "file.txt")
    for suffix in SUFFIXES:
        with pytest.raises(TraceFileBroken, match="cannot be read"):
            read(tmp_path / f"none{suffix}")
        with pytest.raises(TraceFileBroken, match="cannot be written"):
            written(tmp_path / "none" / f"file{suffix}")
    assert list(tmp_path.iterdir()) == []


def test_positions_that_do_not_fit_the_rows(tmp_path: Path) -> None:
    found = read(written(tmp_path / "file.npz", tensors(rows=2)))
    with pytest.raises(TraceFileBroken, match="3 positions for the 2 rows of embed"):
        found.positions_of("embed")


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("positions", "[1, 2"),
        ("positions", "[1, -2]"),
        ("positions", "[1, true]"),
        ("positions", "{}"),
        ("token_ids", '["a"]'),
        ("first_position", "1.5"),
        ("first_position", "[1]"),
        ("order", '["a", 1]'),
        ("order", '"abc"'),
    ],
)
def test_facts_of_another_kind(key: str, text: str) -> None:
    with pytest.raises(TraceFileBroken, match=f"its metadata {key} "):
        facts_of({key: text})


def test_metadata_that_is_no_object_of_strings(tmp_path: Path) -> None:
    for text in (b"{", b"[]", b'{"a": 1}', b"\xff"):
        np.savez(tmp_path / "file.npz", __metadata__=np.frombuffer(text, np.uint8))
        with pytest.raises(TraceFileBroken, match="__metadata__ is not a JSON object of strings"):
            read(tmp_path / "file.npz")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150)
@given(
    suffix=st.sampled_from(SUFFIXES),
    place=st.integers(0, 1 << 20),
    flip=st.integers(1, 255),
    cut=st.booleans(),
)
def test_damage_is_told_or_harmless(tmp_path: Path, suffix: str, place: int, flip: int, cut: bool) -> None:
    path = written(tmp_path / f"file{suffix}")
    data = bytearray(path.read_bytes())
    place %= len(data)
    if cut:
        del data[place:]
    else:
        data[place] ^= flip
    path.write_bytes(data)
    with suppress(TraceFileBroken):
        read(path)


def test_a_pickle_is_never_loaded(tmp_path: Path) -> None:
    np.savez(tmp_path / "file.npz", x=np.array([{}], object))
    with pytest.raises(TraceFileBroken, match="cannot be read as"):
        read(tmp_path / "file.npz")
    with zipfile.ZipFile(tmp_path / "other.npz", "w") as archive:
        archive.writestr("x.npy", b"not an array")
    with pytest.raises(TraceFileBroken, match="cannot be read as"):
        read(tmp_path / "other.npz")
