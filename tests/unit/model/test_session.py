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


def test_a_session_that_begins_like_another(context: NoGrad) -> None:
    pool, c = models.pool_for(MODEL, 64, 64), MODEL.configuration
    whole = Session(MODEL.new_cache(pool))
    ids = [(5 * n) % 29 for n in range(40)]
    commit(whole, context, ids)
    half = Session(MODEL.new_cache(pool))
    half.reuse(whole, 32)
    assert (half.tokens, half.total_work) == (ids[:32], Work(reused_tokens=32))
    commit(half, context, [7, 8])
    want = full_forward(MODEL, context, half.tokens)
    assert MODEL.logits(context, half.cache.hidden(0, 34)).tobytes() == want.tobytes()
    assert half.total_work == work_of(c, 32, 2, prefill=False) + Work(reused_tokens=32)


def test_a_session_that_was_cut(context: NoGrad) -> None:
    session = Session(MODEL.new_cache(models.pool_for(MODEL, 64)))
    commit(session, context, [3, 1, 4, 1, 5])
    work = session.total_work
    session.truncate(2)
    assert (session.tokens, session.position, session.total_work) == ([3, 1], 2, work)
    newest = MODEL.logits(context, session.last_hidden)
    assert newest.tobytes() == full_forward(MODEL, context, [3, 1])[-1:].tobytes()
    commit(session, context, [9])
    newest = MODEL.logits(context, session.last_hidden)
    assert newest.tobytes() == full_forward(MODEL, context, [3, 1, 9])[-1:].tobytes()
    assert session.total_work.token_forwards == 6


def test_tokens_without_rows_of_h_are_not_committed(context: NoGrad) -> None:
    session = Session(MODEL.new_cache(models.pool_for(MODEL, 64)))
    ids = np.array([3, 1], np.int64)
    with Transaction(session.cache, 2) as transaction:
        hidden = MODEL.forward(context, [text_segment(transaction, ids)])
        transaction.keep_hidden(hidden[:1])
        with pytest.raises(RuntimeError, match="rows of H are missing"):
            session.commit(transaction, ids, Work(token_forwards=2))
    assert (session.tokens, session.cache.length, session.cache.capacity) == ([], 0, 0)
