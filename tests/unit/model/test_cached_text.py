"""A prompt and single tokens through a session: all of a call, or nothing of it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from unit.model import models
from zeroulp.model.cached_text import decode, prefill
from zeroulp.model.context import NoGrad
from zeroulp.model.errors import CacheEmpty, CacheFilled, ContextFull, EmptyPrompt, TokenOutOfRange
from zeroulp.model.full_forward import full_forward
from zeroulp.model.session import Session
from zeroulp.model.work import Work, work_of

MODEL = models.with_gains(models.SMALL, 41)
IDS = [3, 1, 4, 1, 5, 9, 2, 6]


def session() -> Session:
    return Session(MODEL.new_cache(models.pool_for(MODEL, 128)))


@pytest.mark.parametrize("prompt", [1, 5, 7])
def test_it_equals_the_full_forward(context: NoGrad, prompt: int) -> None:
    opened = session()
    rows = [*prefill(MODEL, context, opened, IDS[:prompt])]
    rows += [decode(MODEL, context, opened, token) for token in IDS[prompt:]]
    assert np.array(rows).tobytes() == full_forward(MODEL, context, IDS).tobytes()
    assert opened.tokens == IDS
    decoded = [work_of(MODEL.configuration, at, 1, prefill=False) for at in range(prompt, len(IDS))]
    total = work_of(MODEL.configuration, 0, prompt, prefill=True)
    for work in decoded:
        total += work
    assert opened.total_work == total


def test_refused_calls_leave_an_empty_session_empty(context: NoGrad) -> None:
    opened = session()
    seen: list[str] = []
    watched = context.observed_by(lambda layer, stage, values: seen.append(stage))
    calls: list[tuple[type[Exception], Callable[[], object]]] = [
        (EmptyPrompt, lambda: prefill(MODEL, watched, opened, [])),
        (TokenOutOfRange, lambda: prefill(MODEL, watched, opened, [3, 29])),
        (ContextFull, lambda: prefill(MODEL, watched, opened, [1] * 129)),
        (CacheEmpty, lambda: decode(MODEL, watched, opened, 3)),
    ]
    for error, call in calls:
        with pytest.raises(error):
            call()
        assert (opened.tokens, opened.total_work, opened.cache.nbytes, seen) == ([], Work(), 0, [])
    assert prefill(MODEL, context, opened, IDS).tobytes() == full_forward(MODEL, context, IDS).tobytes()


def test_refused_calls_leave_a_prefilled_session_as_it_was(context: NoGrad) -> None:
    opened = session()
    prefill(MODEL, context, opened, IDS[:-1])
    before, work = models.state(opened.cache), opened.total_work
    with pytest.raises(CacheFilled):
        prefill(MODEL, context, opened, IDS)
    with pytest.raises(TokenOutOfRange):
        decode(MODEL, context, opened, -1)
    assert (models.state(opened.cache), opened.total_work) == (before, work)
    newest = decode(MODEL, context, opened, IDS[-1])
    assert newest.tobytes() == full_forward(MODEL, context, IDS)[-1].tobytes()


def test_a_call_that_is_broken_off_leaves_the_session_as_it_was(context: NoGrad) -> None:
    opened = session()

    def stop() -> None:
        raise InterruptedError

    with pytest.raises(InterruptedError):
        prefill(MODEL, context.checked_by(stop), opened, IDS)
    assert (opened.tokens, opened.total_work, opened.cache.nbytes) == ([], Work(), 0)
