"""The real SmolLM2 tokenizer, from its GGUF file's metadata.

``tests/data/smollm2-tokens.json`` was recorded with ``naive.text_smollm``, which uses neither the
tokenizers library nor this package, and compared with the ids of transformers 5.24
(``AutoTokenizer.from_pretrained(folder, gguf_file=...)``). Those are the same for all texts but two,
"½ ² Ⅷ ..." and "  7  8": transformers does not read ``tokenizer.ggml.pre`` and leaves out the step that
isolates digits, which shows there and only there in this table.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from gguf import GGUFReader
from hypothesis import given, settings
from hypothesis import strategies as st

from naive.text_smollm import NaiveSmolLm
from zeroulp.model.text import ChatMessage, StreamDecoder, chat_template_from_gguf, tokenizer_from_gguf
from zeroulp.model.text.tokenizer import Tokenizer

pytestmark = pytest.mark.real_model

KNOWN = json.loads((Path(__file__).parents[2] / "data" / "smollm2-tokens.json").read_text("ascii"))
# Bytes for which this vocabulary has no token; its own tokenizer drops them.
WITHOUT_TOKEN = set("\x04\x06\x13\x14\x16\x1d")


@pytest.fixture(scope="module")
def metadata(real_model_path: Path) -> dict[str, Any]:
    reader = GGUFReader(real_model_path)
    return {key: field.contents() for key, field in reader.fields.items() if key.startswith("tokenizer.")}


@pytest.fixture(scope="module")
def tokenizer(metadata: dict[str, Any]) -> Tokenizer:
    return tokenizer_from_gguf(metadata)


@pytest.fixture(scope="module")
def naive(metadata: dict[str, Any]) -> NaiveSmolLm:
    return NaiveSmolLm(metadata)


@pytest.mark.parametrize("known", KNOWN, ids=lambda known: ascii(known["text"])[:40])
def test_ids_are_the_recorded_ones(tokenizer: Tokenizer, known: dict[str, Any]) -> None:
    assert tokenizer.encode_plain(known["text"]) == known["ids"]
    assert tokenizer.encode_prompt(known["text"]) == known["ids"]  # this model wants no begin token


@pytest.mark.parametrize("known", KNOWN, ids=lambda known: ascii(known["text"])[:40])
def test_recorded_texts_come_back_whole_and_streamed(tokenizer: Tokenizer, known: dict[str, Any]) -> None:
    ids, text = known["ids"], known["text"]
    if not WITHOUT_TOKEN & set(text) and max(text, default="") < "\U00040000":
        assert tokenizer.decode(ids) == text
    decoder = StreamDecoder(tokenizer)
    streamed = "".join([*map(decoder.push, ids), decoder.finish()])
    assert streamed == tokenizer.decode(ids, skip_control=True)


FRAGMENTS = st.sampled_from(
    [
        "<|im_start|>",
        "<|im_end|>",
        "<|endoftext|>",
        "  ",
        "\n\n",
        "\t",
        " the",
        "'ll",
        "it's",
        "42",
        "def ",
        "é",
        "👨‍👩‍👧",
    ]
)
# Up to Unicode 12, which everything here agrees on.
ANY = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cn", "Co"], max_codepoint=0x1FA00), max_size=8
)


@settings(derandomize=True, max_examples=400, deadline=None)
@given(text=st.lists(st.one_of(FRAGMENTS, ANY), max_size=8).map("".join))
def test_any_text_equals_the_naive_tokenizer(text: str, tokenizer: Tokenizer, naive: NaiveSmolLm) -> None:
    assert tokenizer.encode_plain(text) == naive.encode(text)


def test_the_vocabulary_is_the_published_one(tokenizer: Tokenizer) -> None:
    assert tokenizer.vocabulary_size == 49152
    assert tokenizer.end_ids == {0, 2}
    assert [token for token in range(49152) if tokenizer.is_control(token)] == list(range(17))


def test_a_chat_is_rendered_and_encoded(metadata: dict[str, Any], tokenizer: Tokenizer) -> None:
    template = chat_template_from_gguf(metadata)
    assert template is not None
    chat = [ChatMessage("system", "Be brief."), ChatMessage("user", "Hi")]
    text = template.render(chat, add_generation_prompt=True)
    assert text == (
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    )
    ids = tokenizer.encode_plain(text)
    assert [token for token in ids if tokenizer.is_control(token)] == [1, 2, 1, 2, 1]
    assert tokenizer.decode(ids) == text
