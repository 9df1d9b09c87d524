from __future__ import annotations

import os
from pathlib import Path

import pytest
from gguf.constants import GGMLQuantizationType, GGUFValueType

from unit.formats.gguf_bytes import F16, alignment, array, entry, gguf, tensor, text, u32, u64
from zeroulp.model.errors import MalformedFile, ModelRefused, UnsupportedModel
from zeroulp.model.formats.gguf_file import GgufFile

U8, U32, STRING, ARRAY = GGUFValueType.UINT8, GGUFValueType.UINT32, GGUFValueType.STRING, GGUFValueType.ARRAY
Q4_1 = GGMLQuantizationType.Q4_1


def head(tensors: int, keys: int, version: int = 3) -> bytes:
    return b"GGUF" + u32(version) + u64(tensors) + u64(keys)


def nested(depth: int) -> bytes:
    return array(U8, [b"\1"]) if depth == 1 else array(ARRAY, [nested(depth - 1)])


MALFORMED = {
    "wrong magic": (b"GGML" + bytes(20), "starts with b'GGML'"),
    "too short for the magic": (b"GG", "offset 0: the magic number needs 4 bytes, and 2 are left"),
    "too many keys": (head(0, 2**60), r"the metadata needs 1152921504606846976 x 13 bytes, and 0 are left"),
    "too many tensors": (head(2**63, 0), "the tensor directory needs"),
    "a key longer than the file": (head(0, 1) + u64(2**64 - 1) + bytes(64), "a metadata key needs"),
    "a string longer than the file": (
        gguf([entry("s", STRING, u64(2**62) + b"abc")]),
        "the value of 's' needs",
    ),
    "numbers beyond the end": (
        gguf([entry("a", ARRAY, u32(U32) + u64(2**62) + bytes(9))]),
        "value of 'a' needs",
    ),
    "strings beyond the end": (
        gguf([entry("a", ARRAY, u32(STRING) + u64(2**61) + bytes(9))]),
        "2305843009213693952 x 8",
    ),
    "arrays beyond the end": (
        gguf([entry("a", ARRAY, u32(ARRAY) + u64(2**61) + bytes(9))]),
        "2305843009213693952 x 12",
    ),
    "arrays too deep": (gguf([entry("a", ARRAY, nested(5))]), "deeper than the 4 allowed"),
    "an unknown value type": (gguf([entry("a", 13, bytes(8))]), "the value of 'a' has the unknown type 13"),
    "an unknown element type": (gguf([entry("a", ARRAY, u32(99) + u64(0) + bytes(9))]), "unknown type 99"),
    "a bool of two": (gguf([entry("a", GGUFValueType.BOOL, b"\2")]), "offset 37: .*neither 0 nor 1"),
    "an array with a bool of two": (
        gguf([entry("a", ARRAY, array(GGUFValueType.BOOL, [b"\1", b"\2"]))]),
        "offset 50: .*neither 0 nor 1",
    ),
    "a key twice": (gguf([entry("a", U8, b"\1"), entry("a", U8, b"\1")]), "metadata key 'a' occurs twice"),
    "a key that is not UTF-8": (
        gguf([entry(b"a\xff", U8, b"\1")]),
        "offset 33: a metadata key is not valid UTF-8",
    ),
    "a value that is not UTF-8": (
        gguf([entry("a", STRING, text(b"\xc0\x80"))]),
        "value of 'a' is not valid UTF-8",
    ),
    "a name that is not UTF-8": (
        gguf([], [tensor(b"\xed\xa0\x80", (1,))], bytes(4)),
        "name is not valid UTF-8",
    ),
    "alignment zero": (gguf([alignment(0)]), "general.alignment is 0"),
    "alignment not a power of two": (gguf([alignment(48)]), "general.alignment is 48"),
    "alignment no integer": (gguf([entry("general.alignment", STRING, text("32"))]), "is not an integer"),
    "alignment a bool": (gguf([entry("general.alignment", GGUFValueType.BOOL, b"\1")]), "is not an integer"),
    "alignment beyond the end": (
        gguf([alignment(2**31)], [tensor("w", (1,))], bytes(4)),
        "at offset 2147483648 needs 4 bytes, and 0 are left",
    ),
    "no dimensions": (gguf([], [tensor("w", ()) + bytes(8)]), "'w' has 0 dimensions"),
    "five dimensions": (gguf([], [tensor("w", (1,) * 5)], bytes(4)), "'w' has 5 dimensions"),
    "many dimensions": (gguf([], [text("w") + u32(2**32 - 1) + bytes(64)]), "'w' has 4294967295 dimensions"),
    "a dimension of zero": (
        gguf([], [tensor("w", (4, 0))], bytes(4)),
        r"'w' has the impossible shape \[0, 4\]",
    ),
    "a product that wraps to four": (gguf([], [tensor("w", (2**62 + 1, 4))], bytes(64)), "impossible shape"),
    "a part of a block": (gguf([], [tensor("w", (33, 2), Q4_1)], bytes(64)), "rows of 33 values; Q4_1"),
    "blocks across rows": (gguf([], [tensor("w", (16, 2), Q4_1)], bytes(64)), "rows of 16 values; Q4_1"),
    "an unaligned offset": (gguf([], [tensor("w", (1,), offset=4)], bytes(64)), "is not aligned to 32"),
    "an offset beyond the end": (
        gguf([], [tensor("w", (1,), offset=2**63)], bytes(4)),
        "needs 4 bytes, and 0 are",
    ),
    "data beyond the end": (gguf([], [tensor("w", (17,))], bytes(64)), "needs 68 bytes, and 64 are left"),
    "one tensor twice": (
        gguf([], [tensor("w", (1,)), tensor("w", (1,), offset=32)], bytes(64)),
        "tensor 'w' occurs twice",
    ),
    "shared data": (
        gguf([], [tensor("a", (9,)), tensor("b", (9,), F16, 32)], bytes(64)),
        "'b'.* overlaps .*'a'",
    ),
    "the same data": (gguf([], [tensor("a", (8,)), tensor("b", (8,))], bytes(64)), "overlaps"),
}

UNSUPPORTED = {
    "big-endian": (b"GGUF" + (3).to_bytes(4, "big") + bytes(16), "big-endian"),
    "version 0": (head(0, 0, version=0), "GGUF version 0 is not read"),
    "version 1": (head(0, 0, version=1), "GGUF version 1 is not read"),
    "version 4": (head(0, 0, version=4), "GGUF version 4 is not read"),
    "an unknown tensor type": (
        gguf([], [tensor("w", (1,), 4)], bytes(64)),
        "tensor 'w' has the unknown type 4",
    ),
}


@pytest.mark.parametrize(("data", "message"), MALFORMED.values(), ids=MALFORMED.keys())
def test_contradictions_are_malformed(tmp_path: Path, data: bytes, message: str) -> None:
    path = tmp_path / "bad.gguf"
    path.write_bytes(data)
    with pytest.raises(MalformedFile, match=message) as caught:
        GgufFile.open(path)
    assert str(caught.value).startswith(f"{path}: ")


@pytest.mark.parametrize(("data", "message"), UNSUPPORTED.values(), ids=UNSUPPORTED.keys())
def test_other_kinds_of_file_are_unsupported(tmp_path: Path, data: bytes, message: str) -> None:
    path = tmp_path / "other.gguf"
    path.write_bytes(data)
    with pytest.raises(UnsupportedModel, match=message):
        GgufFile.open(path)


def test_the_deepest_allowed_array_is_read(tmp_path: Path) -> None:
    path = tmp_path / "deep.gguf"
    path.write_bytes(gguf([entry("a", ARRAY, nested(4))]))
    assert GgufFile.open(path).metadata == {"a": [[[[1]]]]}


def test_a_long_name_is_not_repeated_in_full(tmp_path: Path) -> None:
    path = tmp_path / "long.gguf"
    path.write_bytes(gguf([entry("k" * 100_000, 13, bytes(8))]))
    with pytest.raises(MalformedFile) as caught:
        GgufFile.open(path)
    assert len(str(caught.value)) < len(str(path)) + 300


def test_an_empty_file_is_malformed(tmp_path: Path) -> None:
    path = tmp_path / "empty.gguf"
    path.touch()
    with pytest.raises(MalformedFile, match="the file is empty"):
        GgufFile.open(path)


def test_paths_without_a_readable_file_are_refused_with_the_reason(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.gguf"
    os.mkfifo(pipe)
    refused = {
        tmp_path: "not a regular file",
        pipe: "not a regular file",
        tmp_path / "missing.gguf": "No such file",
        tmp_path / "nul\0.gguf": "null",
        tmp_path / ("x" * 300): "File name too long",
    }
    for path, message in refused.items():
        with pytest.raises(ModelRefused, match=message) as caught:
            GgufFile.open(path)
        assert str(path) in str(caught.value)


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads any file")
def test_an_unreadable_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "secret.gguf"
    path.write_bytes(gguf())
    path.chmod(0)
    with pytest.raises(ModelRefused, match="Permission denied"):
        GgufFile.open(path)
