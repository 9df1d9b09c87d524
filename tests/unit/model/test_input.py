"""Wrong ids and too many of them are refused before anything is computed."""

from __future__ import annotations

import numpy as np
import pytest

from unit.model import models
from zeroulp.model.context import NoGrad
from zeroulp.model.errors import ContextFull, EmptyPrompt, TokenOutOfRange
from zeroulp.model.full_forward import full_forward

MODEL = models.seeded(models.SMALL, 1)


def test_ids_become_an_array() -> None:
    ids = MODEL.check_tokens([0, 28, 3], field="token_ids")
    assert ids.dtype == np.int64
    assert ids.tolist() == [0, 28, 3]
    assert MODEL.check_tokens([], field="token_ids", allow_empty=True).tolist() == []


def test_no_ids(context: NoGrad) -> None:
    with pytest.raises(EmptyPrompt, match="token_ids has no tokens") as refused:
        MODEL.check_tokens([], field="token_ids")
    assert refused.value.violations[0].field == "token_ids"
    with pytest.raises(EmptyPrompt):
        full_forward(MODEL, context, [])


@pytest.mark.parametrize("token", [-1, 29, 2**31, -(2**63), 2**64])
def test_ids_outside_the_vocabulary(context: NoGrad, token: int) -> None:
    with pytest.raises(TokenOutOfRange, match="the vocabulary has the ids 0 to 28") as refused:
        MODEL.check_tokens([0, token, 29], field="token_ids")
    assert refused.value.violations[0].field == "token_ids[1]"
    assert refused.value.metadata == {"token": str(token), "vocabulary_size": "29"}
    with pytest.raises(TokenOutOfRange):
        full_forward(MODEL, context, [0, token])


def test_room() -> None:
    MODEL.check_room(0, 128, field="token_ids")
    MODEL.check_room(127, 1, field="token_ids")
    for position, count in ((0, 129), (128, 1), (100, 29)):
        with pytest.raises(ContextFull) as refused:
            MODEL.check_room(position, count, field="token_ids")
        assert refused.value.metadata == {
            "requested_positions": str(position + count),
            "max_positions": "128",
        }


def test_the_last_position_is_usable_and_the_next_is_not(context: NoGrad) -> None:
    assert full_forward(MODEL, context, [1] * 128).shape == (128, 29)
    with pytest.raises(ContextFull):
        full_forward(MODEL, context, [1] * 129)
