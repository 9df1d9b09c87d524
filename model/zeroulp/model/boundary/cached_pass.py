"""The fixture through a cache: all tokens but the last in one prefill, the last by a decode."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from zeroulp.model.boundary.fixture import Fixture
from zeroulp.model.cache.pool import BlockPool, blocks_for
from zeroulp.model.cached_text import decode, prefill
from zeroulp.model.context import NoGrad
from zeroulp.model.kernels.arrays import F64
from zeroulp.model.session import Session
from zeroulp.model.tensors import kept


@dataclass(frozen=True, slots=True, eq=False)
class CachedPass:
    """The session afterwards, the newest logits ``[V]``, and whether nothing of a graph is behind them."""

    session: Session
    newest_logits: F64
    graph_free: bool

    @classmethod
    def of(cls, context: NoGrad, fixture: Fixture) -> CachedPass:
        """Prefill and decode the fixture's ids."""
        session = new_session(fixture)
        prefill(fixture.model, context, session, fixture.ids[:-1])
        newest = decode(fixture.model, context, session, fixture.ids[-1])
        result = context.leave(newest)
        return cls(session, newest, not result.tracked and kept(result).tensors == 0)

    def bit_mismatches(self, row: F64) -> int:
        """Return how many of the newest logits differ from those of ``row [V]`` in any bit."""
        ours, theirs = (np.ascontiguousarray(logits).view(np.int64) for logits in (self.newest_logits, row))
        return int(np.count_nonzero(ours != theirs))


def new_session(fixture: Fixture) -> Session:
    """Return an empty session with room for every position of the fixture's model."""
    configuration = fixture.model.configuration
    pool = BlockPool(configuration, blocks_for(configuration.max_positions))
    return Session(fixture.model.new_cache(pool))
