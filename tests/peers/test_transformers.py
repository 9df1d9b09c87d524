"""Agreement with transformers in float64, as recorded by record_transformers.py."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from zeroulp.model.compute_team import ComputeTeam
from zeroulp.model.context import NoGrad
from zeroulp.model.full_forward import full_forward
from zeroulp.model.loading import LoadedModel, load
from zeroulp.model.probabilities import log_probabilities

# transformers computes RoPE's tables and the norms' scale in float32: 5e-6 was seen.
TOLERANCE = 2e-5
RECORD = json.loads((Path(__file__).parents[1] / "data" / "transformers-f64.json").read_text())

pytestmark = pytest.mark.real_model


@pytest.fixture(scope="module")
def loaded(real_model_path: Path) -> LoadedModel:
    return load(str(real_model_path))


@pytest.mark.parametrize("case", RECORD["cases"], ids=lambda case: case["prompt"][:16])
def test_ids_log_probabilities_and_logits_agree_with_transformers(
    loaded: LoadedModel, case: dict[str, Any]
) -> None:
    assert loaded.tokenizer is not None
    ids, count = case["ids"], case["prompt_tokens"]
    assert loaded.tokenizer.encode_prompt(case["prompt"]) == ids[:count]
    context = NoGrad(ComputeTeam(2))
    z = full_forward(loaded.model, context, ids)
    # the greedy continuation is the same, token for token
    assert z[count - 1 : -1].argmax(axis=1).tolist() == ids[count:]
    table = log_probabilities(context, z)
    ours = np.array([table.of(row, token) for row, token in enumerate(ids[1:])])
    assert np.abs(ours - np.array(case["log_probabilities"])).max() < TOLERANCE
    assert np.abs(z[-1, :16] - np.array(case["last_logits_first16"])).max() < TOLERANCE
