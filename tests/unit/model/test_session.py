"""A session's tokens, cache and counters move together."""

from __future__ import annotations

import numpy as np
import pytest

from unit.model import models
from zeroulp.model.cache.transaction import Transaction
from zeroulp.model.composition.text_segment import text_segment
from zeroulp.model.context import NoGrad
from zeroulp.model.full_forward import full_forward
from zeroulp.model.session import Session
from zeroulp.model.work import COUNTER_LIMIT, Work, work_of

MODEL = models.with_gains(models.SMALL, 31)


def commit(session: Session, context: NoGrad, ids: list[int], work: Work | None = None) -> None:
    c, array = MODEL.configuration, np.array(ids, np.int64)
    with Transaction(session.cache, len(ids)) as transaction:
        hidden = MODEL.forward(context, [text_segment(transaction, array)])
        counted = work or work_of(c, session.position, len(ids), prefill=session.position == 0)
        transaction.keep_hidden(hidden)
        session.commit(transaction, array, counted)


def test_commits_add_up(context: NoGrad) -> None:
    session = Session(MODEL.new_cache(models.pool_for(MODEL, 64)))
    session.check_integrity()
    commit(session, context, [3, 1, 4])
    commit(session, context, [1])
    commit(session, context, [5, 9])
    assert (session.tokens, session.position) == ([3, 1, 4, 1, 5, 9], 6)
    c = MODEL.configuration
    assert session.total_work == Work(6, 3, 3, 12, 36, work_of(c, 0, 6, prefill=True).attention_score_values)
    newest = MODEL.logits(context, session.last_hidden)
    assert newest.tobytes() == full_forward(MODEL, context, session.tokens)[-1:].tobytes()


def test_a_counter_that_would_overflow_stops_the_commit(context: NoGrad) -> None:
    session = Session(MODEL.new_cache(models.pool_for(MODEL, 64)))
    commit(session, context, [3, 1])
    hidden = session.last_hidden.tobytes()
    with pytest.raises(OverflowError):
        commit(session, context, [4], Work(token_forwards=1, cache_appends=COUNTER_LIMIT))
    assert (session.tokens, session.cache.length, session.cache.capacity) == ([3, 1], 2, 32)
    assert session.last_hidden.tobytes() == hidden
    session.check_integrity()


def test_disagreement_is_found(context: NoGrad) -> None:
    session = Session(MODEL.new_cache(models.pool_for(MODEL, 64)))
    commit(session, context, [3, 1])
    session.tokens.append(0)
    with pytest.raises(RuntimeError, match="3 tokens, 2 rows, 2 computed or reused"):
        session.check_integrity()
    session.tokens.pop()
    session.total_work = Work(token_forwards=1)
    with pytest.raises(RuntimeError, match="2 tokens, 2 rows, 1 computed or reused"):
        session.check_integrity()
