"""What a running call may use: the model, the pool, the sessions and the limits."""

from __future__ import annotations

from dataclasses import dataclass

from zeroulp.model.cache.pool import BlockPool, block_bytes, blocks_for
from zeroulp.model.composition.language_model import LanguageModel
from zeroulp.model.context import NoGrad
from zeroulp.model.errors import InvalidArgument, MessageTooLarge
from zeroulp.model.kernels.arrays import F64, I64
from zeroulp.model.session import Session
from zeroulp.model.text import Tokenizer
from zeroulp.server.engine.limits import Limits
from zeroulp.server.engine.session_table import SessionTable
from zeroulp.server.engine.trace_room import TraceRoom

_ANSWER_SLACK = 64 * 1024
"""Bytes for the fields of an answer beside logits, ids and entries."""


@dataclass(frozen=True, slots=True, eq=False)
class Hall:
    """Everything in it but the limits is used by the compute thread only."""

    model: LanguageModel
    tokenizer: Tokenizer | None
    context: NoGrad
    pool: BlockPool
    sessions: SessionTable
    trace_room: TraceRoom
    limits: Limits

    def new_session(self) -> Session:
        """Return an empty session that nobody can find yet."""
        return Session(self.model.new_cache(self.pool))

    def reuse(self, session: Session, ids: I64) -> int:
        """Let a new session share what an open one begins with of ``ids``; return how many tokens.

        The last token is always computed, since it is what a call's answer follows.
        """
        found = self.sessions.longest_prefix(ids[:-1].tolist())
        if found is None:
            return 0
        session.reuse(*found)
        return found[1]

    def check_integrity(self) -> None:
        """Raise ``RuntimeError`` unless sessions and blocks agree, which they do when no call runs."""
        self.sessions.check_integrity()
        self.pool.check_integrity([opened.session.cache.blocks for opened in self.sessions])

    def newest_logits(self, session: Session) -> F64:
        """Return the logits ``[V]`` after the session's newest token, from its stored hidden row."""
        newest: F64 = self.model.logits(self.context, session.last_hidden)[0]  # [1, V] -> [V]
        return newest

    def check_entries(self, count: int) -> None:
        """Raise ``InvalidArgument`` if more top entries are asked for than are allowed."""
        limit = self.limits.max_top_entries
        if count > limit:
            raise InvalidArgument(f"top_entries is {count}; 0 to {limit} are allowed", field="top_entries")

    def check_answer_size(self, logit_rows: int, entries: int, tokens: int) -> None:
        """Raise ``MessageTooLarge`` if an answer with so much in it cannot be sent."""
        V = self.model.configuration.vocabulary_size
        # 16 bytes hold an entry (tag, varint id, double), 48 a scored token
        size = logit_rows * V * 8 + entries * 24 + tokens * 48 + _ANSWER_SLACK
        limit = self.limits.max_message_bytes
        if size > limit:
            raise MessageTooLarge(
                f"the answer would have about {size} bytes ({logit_rows} rows of {V} logits); "
                f"{limit} are allowed",
                answer_bytes=size,
                max_message_bytes=limit,
            )


def new_hall(model: LanguageModel, tokenizer: Tokenizer | None, context: NoGrad, limits: Limits) -> Hall:
    """Return a hall without sessions, with as many blocks as the budget buys and the limits can fill."""
    configuration = model.configuration
    most = (limits.max_sessions + limits.max_calls) * blocks_for(configuration.max_positions)
    blocks = max(1, min(most, limits.cache_bytes // block_bytes(configuration)))
    sessions = SessionTable(limits.max_sessions, limits.max_waiting_per_session)
    pool, trace_room = BlockPool(configuration, blocks), TraceRoom(limits.max_trace_bytes)
    return Hall(model, tokenizer, context, pool, sessions, trace_room, limits)
