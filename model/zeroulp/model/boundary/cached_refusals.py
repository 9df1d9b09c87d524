"""Cached calls that are refused, and commits that publish nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Final

import numpy as np

from zeroulp.model.boundary.cached_pass import new_session
from zeroulp.model.boundary.fixture import Fixture
from zeroulp.model.boundary.scene import Arrangement, Scene, renew
from zeroulp.model.cache.transaction import Transaction
from zeroulp.model.cached_text import decode, prefill
from zeroulp.model.composition.text_segment import text_segment
from zeroulp.model.session import Session
from zeroulp.model.work import COUNTER_LIMIT, Work, work_of

Call = Callable[[], object]


def _prefilled(scene: Scene) -> Session:
    session = new_session(scene.fixture)
    prefill(scene.model, scene.plain, session, scene.fixture.ids)
    return session


def _decode(scene: Scene, session: Session, token: int) -> Call:
    return partial(decode, scene.model, scene.watched_plain, session, token)


def _empty_prompt(scene: Scene) -> Call:
    return partial(prefill, scene.model, scene.watched_plain, new_session(scene.fixture), [])


def _cache_filled(scene: Scene) -> Call:
    return partial(prefill, scene.model, scene.watched_plain, _prefilled(scene), scene.fixture.ids)


def _cache_empty(scene: Scene) -> Call:
    return _decode(scene, new_session(scene.fixture), scene.fixture.ids[0])


def _token_out_of_range(scene: Scene) -> Call:
    return _decode(scene, _prefilled(scene), scene.configuration.vocabulary_size)


def _context_full(scene: Scene) -> Call:
    session, token = _prefilled(scene), scene.fixture.ids[0]
    while session.position < scene.configuration.max_positions:
        decode(scene.model, scene.plain, session, token)
    return _decode(scene, session, token)


def _parameters_changed(scene: Scene) -> Call:
    session = _prefilled(scene)
    renew(scene.model.backbone.final_norm)
    return _decode(scene, session, scene.fixture.ids[0])


def _foreign_cache(scene: Scene) -> Call:
    other = Fixture.new().model
    return partial(decode, other, scene.watched_plain, _prefilled(scene), scene.fixture.ids[0])


def _stale_ticket(scene: Scene) -> Call:
    cache = _prefilled(scene).cache
    first, second = Transaction(cache, 1), Transaction(cache, 1)
    for transaction in (first, second):
        segment = text_segment(transaction, scene.fixture.ids[:1])
        scene.model.forward(scene.plain, [segment])
    first.commit()
    return second.commit


def _counter_overflow(scene: Scene) -> Call:
    session, ids = _prefilled(scene), np.array(scene.fixture.ids[:1])
    transaction = Transaction(session.cache, ids.size)
    transaction.keep_hidden(scene.model.forward(scene.plain, [text_segment(transaction, ids)]))
    work = work_of(scene.configuration, session.position, ids.size, prefill=False)
    session.total_work += Work(
        attention_score_values=COUNTER_LIMIT - session.total_work.attention_score_values
    )
    return partial(session.commit, transaction, ids, work)


CACHED_REFUSALS: Final[Mapping[str, Arrangement]] = MappingProxyType(
    {
        "empty_prompt": _empty_prompt,
        "cache_filled": _cache_filled,
        "cache_empty": _cache_empty,
        "token_out_of_range": _token_out_of_range,
        "context_full": _context_full,
        "parameters_changed": _parameters_changed,
        "foreign_cache": _foreign_cache,
        "stale_ticket": _stale_ticket,
        "counter_overflow": _counter_overflow,
    }
)
