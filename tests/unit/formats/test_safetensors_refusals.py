"""Files that are well-formed JSON but no model of this format: each is refused by name, and by type."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from unit.formats.safetensors_samples import parts_of, write_parts, write_tiny
from zeroulp.model.errors import MalformedFile, ModelRefused, UnsupportedModel
from zeroulp.model.formats.safetensors import SafetensorsCheckpoint
from zeroulp.model.formats.safetensors.file import SafetensorsFile

GAIN = "final_norm.gain"


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    return write_tiny(tmp_path / "damaged.safetensors")


HOSTILE_HEADERS = {
    "not JSON": ("{", "the header is not JSON"),
    "not UTF-8": (b'{"\xff": 1}', "the header is not valid UTF-8 at byte 2"),
    "a list": ("[]", "the header is not a JSON object"),
    "deep": ("[" * 100_000, "the header is nested too deeply"),
    "a long number": ('{"a":' + "9" * 5000 + "}", "the header is not JSON"),
    "not a number": ('{"a":NaN}', "NaN is not a JSON number"),
    "a repeated key": ('{"a":1,"a":1}', "the key 'a' occurs twice"),
    "metadata of numbers": ('{"__metadata__":{"format":1}}', "__metadata__ is not an object of strings"),
    "metadata of none": ('{"__metadata__":null}', "__metadata__ is not an object of strings"),
    "no tensors": ('{"__metadata__":{}}', "bytes after the last tensor belong to no tensor"),
}


@pytest.mark.parametrize(("header", "told"), HOSTILE_HEADERS.values(), ids=HOSTILE_HEADERS)
def test_hostile_headers(damaged: Path, header: str | bytes, told: str) -> None:
    write_parts(damaged, header, b"12345678")
    with pytest.raises(MalformedFile, match=told):
        SafetensorsFile.open(damaged)


def entry(dtype: object = "F32", shape: object = (2,), offsets: object = (0, 8)) -> dict[str, object]:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


HOSTILE_ENTRIES: dict[str, tuple[dict[str, Any], type[ModelRefused], str]] = {
    "no object": ({"a": 1}, MalformedFile, "tensor 'a' is not an object of data_offsets, dtype, shape"),
    "half a type": (
        {"a": entry("F16")},
        UnsupportedModel,
        "'a' is stored as 'F16'; F32 or F64 is read",
    ),
    "no type": ({"a": entry(["F32"])}, UnsupportedModel, "F32 or F64 is read"),
    "no dimension": ({"a": entry(shape=[])}, MalformedFile, r"has the shape \[\]; 1 to 4"),
    "many dimensions": ({"a": entry(shape=[1] * 9)}, MalformedFile, "1 to 4 positive dimensions"),
    "zero": ({"a": entry(shape=[0])}, MalformedFile, "positive dimensions"),
    "negative": ({"a": entry(shape=[-2])}, MalformedFile, "positive dimensions"),
    "true": ({"a": entry(shape=[True, 2])}, MalformedFile, "positive dimensions"),
    "huge": ({"a": entry(shape=[2**63])}, MalformedFile, "positive dimensions"),
    "large": ({"a": entry(shape=[2**62] * 4)}, MalformedFile, "needs .* bytes, and its data has 8"),
    "one offset": ({"a": entry(offsets=[0])}, MalformedFile, "a start and an end are needed"),
    "backwards": ({"a": entry(offsets=[8, 0])}, MalformedFile, "a start and an end are needed"),
    "outside": ({"a": entry(offsets=[8, 16])}, MalformedFile, "needs 8 bytes, and 0 are left"),
    "a hole": (
        {"a": entry(shape=[1], offsets=[4, 8])},
        MalformedFile,
        "leaves 4 bytes before it",
    ),
    "shared": ({"a": entry(), "b": entry()}, MalformedFile, "overlaps the data of tensor 'a'"),
}


@pytest.mark.parametrize(("header", "kind", "told"), HOSTILE_ENTRIES.values(), ids=HOSTILE_ENTRIES)
def test_hostile_entries(damaged: Path, header: dict[str, Any], kind: type[ModelRefused], told: str) -> None:
    write_parts(damaged, header, b"12345678")
    with pytest.raises(kind, match=told):
        SafetensorsFile.open(damaged)


Change = Callable[[dict[str, Any]], object]


def moved(name: str, to: str) -> Change:
    return lambda header: header.update({to: header.pop(name)})


def told(key: str, value: str | None) -> Change:
    def change(header: dict[str, Any]) -> None:
        if value is None:
            del header["__metadata__"][key]
        else:
            header["__metadata__"][key] = value

    return change


def configured(**fields: object) -> Change:
    def change(header: dict[str, Any]) -> None:
        configuration = json.loads(header["__metadata__"]["configuration"])
        configuration |= fields
        kept = {name: value for name, value in configuration.items() if value != "absent"}
        header["__metadata__"]["configuration"] = json.dumps(kept)

    return change


def tokenized(**fields: object) -> Change:
    return told("tokenizer", json.dumps({"kind": "document-bpe", "merges": [[99, 100]]} | fields))


OTHER_MODELS: dict[str, tuple[Change, type[ModelRefused], str]] = {
    "an output matrix": (
        moved(GAIN, "lm_head.weight"),
        UnsupportedModel,
        r"the tensor lm_head\.weight is an output matrix of its own; .*untied models are not served",
    ),
    "llama's output matrix": (moved(GAIN, "output.weight"), UnsupportedModel, r"the tensor output\.weight"),
    "Hugging Face's": (
        moved(GAIN, "model.norm.weight"),
        UnsupportedModel,
        r"the tensor 'model.norm.weight' is Hugging Face's\. .*half-split RoPE; use a GGUF file",
    ),
    "an unknown tensor": (moved(GAIN, "final_norm.bias"), MalformedFile, r"final_norm\.gain is missing"),
    "no format": (told("format", None), UnsupportedModel, "format is absent; only 'zeroulp'"),
    "torch's format": (told("format", "pt"), UnsupportedModel, "format is 'pt'; only 'zeroulp'"),
    "another version": (
        told("format_version", "2"),
        UnsupportedModel,
        "version is '2'; only '1' is read",
    ),
    "another key": (told("licence", "x"), UnsupportedModel, "the metadata key 'licence' is not known"),
    "no configuration": (told("configuration", None), MalformedFile, "configuration is absent"),
    "a broken configuration": (told("configuration", "{"), MalformedFile, "configuration is not JSON"),
    "a field too few": (configured(heads="absent"), MalformedFile, "configuration: 'heads' is absent"),
    "a field too many": (configured(experts=2), MalformedFile, "configuration: 'experts' is not known"),
    "a bool": (configured(layers=True), MalformedFile, "layers is True; it must be of type int"),
    "an integer base": (configured(rope_base=10000), MalformedFile, "rope_base is 10000; .* type float"),
    "a text window": (configured(context_window="4"), MalformedFile, r"of type int \| None"),
    "a huge integer": (configured(max_positions=2**70), MalformedFile, "is allowed"),
    "no heads": (configured(heads=0), UnsupportedModel, "heads is 0; it must be at least 1"),
    "many layers": (
        configured(layers=10**15),
        MalformedFile,
        "layers is 10+, and the file has 11",
    ),
    "a layer more": (configured(layers=2), MalformedFile, r"blocks\.1\.attention_norm\.gain is missing"),
    "a wider model": (
        configured(model_width=4),
        MalformedFile,
        r"token_embedding\.weight has shape \[259, 2\]; the configuration asks for \[259, 4\]",
    ),
    "another tokenizer": (
        tokenized(kind="gguf-bpe"),
        UnsupportedModel,
        "kind is 'gguf-bpe'; only",
    ),
    "a field of a tokenizer": (tokenized(x=1), MalformedFile, "kind and merges, a list, and nothing else"),
    "no merges": (tokenized(merges=None), MalformedFile, "kind and merges, a list"),
    "half a merge": (tokenized(merges=[[99]]), MalformedFile, r"merge 0 is \[99\]; it must be two ids"),
    "a merge of later ids": (tokenized(merges=[[99, 300]]), MalformedFile, "merge 0 joins 99 and 300"),
    "merges for another size": (
        tokenized(merges=[]),
        MalformedFile,
        "258 ids; the model has 259",
    ),
}


@pytest.mark.parametrize(("change", "kind", "told"), OTHER_MODELS.values(), ids=OTHER_MODELS)
def test_other_models_are_refused_by_name(
    damaged: Path, change: Change, kind: type[ModelRefused], told: str
) -> None:
    header, data = parts_of(damaged)
    change(header)
    write_parts(damaged, header, data)
    with pytest.raises(kind, match=told) as refused:
        SafetensorsCheckpoint.open(damaged)
    assert type(refused.value) is kind
    assert str(refused.value).startswith(f"{damaged}: ")


def test_a_tensor_too_many_is_refused_by_name(damaged: Path) -> None:
    header, data = parts_of(damaged)
    header["final_norm.bias"] = entry(offsets=(len(data), len(data) + 8))
    write_parts(damaged, header, data + bytes(8))
    with pytest.raises(UnsupportedModel, match=r"'final_norm.bias' is not known; .* 1 layers has 11 tensors"):
        SafetensorsCheckpoint.open(damaged)


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.safetensors")
    for name, reason in (("pipe.safetensors", "not a regular file"), ("absent.safetensors", "No such file")):
        with pytest.raises(ModelRefused, match=reason):
            SafetensorsCheckpoint.open(tmp_path / name)
