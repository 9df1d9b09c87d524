"""The known answers are reached by every way of computing them, by any number of threads."""

from __future__ import annotations

import functools
import json
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from naive import model as naive
from unit.model import models
from unit.model.conftest import THREADS, Cutting
from zeroulp.model.composition.language_model import LanguageModel
from zeroulp.model.compute_team import ComputeTeam
from zeroulp.model.configuration import Configuration
from zeroulp.model.context import NoGrad
from zeroulp.model.full_forward import full_forward
from zeroulp.model.library.catalogue import BUILT_IN
from zeroulp.model.probabilities import log_probabilities
from zeroulp.model.work import Work, work_of

FILE = Path(__file__).parents[2] / "data" / "known-answers.json"


@dataclass(frozen=True)
class Answer:
    entry: dict[str, Any]

    @property
    def name(self) -> str:
        return str(self.entry["name"])

    @property
    def ids(self) -> list[int]:
        return list(self.entry["token_ids"])

    @property
    def want(self) -> list[str]:
        return list(self.entry["logits_sha256_le_f64_per_position"])

    @property
    def configuration(self) -> Configuration:
        return Configuration(**self.entry["config"])

    @property
    def model(self) -> LanguageModel:
        return seeded(self.configuration, self.entry["init_seed"])


seeded = functools.cache(models.seeded)
ANSWERS = [Answer(entry) for entry in json.loads(FILE.read_text())]
BY_NAME = {answer.name: answer for answer in ANSWERS}


@pytest.fixture(params=ANSWERS, ids=lambda answer: answer.name)
def answer(request: pytest.FixtureRequest) -> Answer:
    return request.param  # type: ignore[no-any-return]


def hexadecimal(value: float) -> str:
    return struct.pack(">d", value).hex()


def test_the_file_has_all_four() -> None:
    assert sorted(BY_NAME) == [
        "boundary-39",
        "boundary-39-capacity",
        "grouped-query-7",
        "grouped-query-7-window-8",
    ]
    assert all(len(answer.want) == len(answer.ids) for answer in ANSWERS)


def test_full_forward(answer: Answer, context: NoGrad) -> None:
    z = full_forward(answer.model, context, answer.ids)
    assert models.digests(z) == answer.want
    assert [hexadecimal(value) for value in z[-1, :8]] == answer.entry["last_logits_first8_bits"]


def test_every_bit_of_the_fixture(context: NoGrad) -> None:
    answer = BY_NAME["boundary-39"]
    z = full_forward(answer.model, context, answer.ids)
    assert [[hexadecimal(value) for value in row] for row in z] == answer.entry["logits_bits"]


def test_prefill(answer: Answer, context: NoGrad) -> None:
    assert models.digests(models.prefill(answer.model, context, answer.ids)) == answer.want


def test_single_tokens(answer: Answer, context: NoGrad) -> None:
    assert models.digests(models.by_single_tokens(answer.model, context, answer.ids)) == answer.want


@pytest.mark.parametrize("way", [models.by_calls, models.by_chunks])
def test_every_split_in_two(answer: Answer, context: NoGrad, way: Any) -> None:
    for split in range(1, len(answer.ids)):
        assert models.digests(way(answer.model, context, answer.ids, [split])) == answer.want, split


def test_mixed_ragged_steps(context: NoGrad, rng: np.random.Generator) -> None:
    for first, second in (("boundary-39", "boundary-39-capacity"), ("grouped-query-7",) * 2,
                          ("grouped-query-7-window-8",) * 2):  # fmt: skip
        one, other = BY_NAME[first], BY_NAME[second]
        assert one.model is other.model
        noise = rng.integers(0, one.configuration.vocabulary_size, 8).tolist()
        z = models.mixed(one.model, context, [one.ids, noise, other.ids], rng)
        assert models.digests(z[0]) == one.want
        assert models.digests(z[2]) == other.want


@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("parts", [1, 2, 5, 64])
def test_threads(
    answer: Answer, teams: dict[int, ComputeTeam], cutting: Cutting, threads: int, parts: int
) -> None:
    context = NoGrad(teams[threads])
    with teams[threads].awake(), cutting.into(parts):
        assert models.digests(full_forward(answer.model, context, answer.ids)) == answer.want
        assert models.digests(models.by_calls(answer.model, context, answer.ids, [1, 2])) == answer.want


def test_naive_model(answer: Answer) -> None:
    z = naive.forward(answer.configuration, models.weights_of(answer.model), answer.ids)
    assert models.digests(np.array(z)) == answer.want
    assert hexadecimal(naive.mean_nll(z[:-1], answer.ids[1:])) == answer.entry["mean_nll_next_token_bits"]


def test_mean_loss(answer: Answer, context: NoGrad) -> None:
    table = log_probabilities(context, full_forward(answer.model, context, answer.ids))
    total = 0.0
    for row, target in enumerate(answer.ids[1:]):
        total += -table.of(row, target)
    assert hexadecimal(total / (len(answer.ids) - 1)) == answer.entry["mean_nll_next_token_bits"]


def test_loss_of_the_reference_fixture(context: NoGrad) -> None:
    model = BY_NAME["boundary-39"].model
    z = full_forward(model, context, [0, 99, 100])
    table, total = log_probabilities(context, z), 0.0
    for row, target in enumerate([99, 100, 1]):
        total += -table.of(row, target)
    assert hexadecimal(total / 3) == "4016ac70bf03b620"
    assert hexadecimal(naive.mean_nll(z.tolist(), [99, 100, 1])) == "4016ac70bf03b620"


def test_built_in_is_the_fixture() -> None:
    assert BUILT_IN["boundary-39"].configuration == BY_NAME["boundary-39"].configuration
    assert BUILT_IN["boundary-39"].seed == BY_NAME["boundary-39"].entry["init_seed"]


def test_work(answer: Answer) -> None:
    c, T = answer.configuration, len(answer.ids)
    work = work_of(c, 0, T, prefill=True)
    told = answer.entry["work"]
    assert (work.cache_appends, work.attention_score_values) == (
        told["cache_appends"],
        told["attention_score_values"],
    )
    w = min(c.context_window or T, T)
    visible = w * (w + 1) // 2 + (T - w) * w
    assert work == Work(
        token_forwards=T,
        prefill_tokens=T,
        cache_appends=c.layers * T,
        qkv_projection_rows=3 * c.layers * T,
        attention_score_values=c.layers * c.heads * visible,
    )


def test_work_adds_up_over_any_split(answer: Answer) -> None:
    c, T = answer.configuration, len(answer.ids)
    whole = work_of(c, 0, T, prefill=True)
    for split in range(1, T):
        total = work_of(c, 0, split, prefill=True) + work_of(c, split, T - split, prefill=False)
        assert (total.prefill_tokens, total.decode_tokens) == (split, T - split)
        for name in ("token_forwards", "cache_appends", "qkv_projection_rows", "attention_score_values"):
            assert getattr(total, name) == getattr(whole, name)
