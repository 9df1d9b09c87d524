"""Text through a session's cache, one call at a time: a prompt first, then single tokens.

Each call is one transaction: it commits rows, tokens and counters together, or leaves the session as it was.
Knows no queue and no other sessions; how calls share steps is a server's matter.
"""

from __future__ import annotations

from collections.abc import Sequence

from zeroulp.model.cache.transaction import Transaction
from zeroulp.model.composition.language_model import LanguageModel
from zeroulp.model.composition.text_segment import text_segment
from zeroulp.model.context import NoGrad
from zeroulp.model.errors import CacheEmpty, CacheFilled
from zeroulp.model.kernels.arrays import F64
from zeroulp.model.session import Session
from zeroulp.model.work import work_of


def prefill(model: LanguageModel, context: NoGrad, session: Session, ids: Sequence[int]) -> F64:
    """Append a prompt to an empty session and return its logits ``[T, V]``.

    Raises ``CacheFilled``, ``EmptyPrompt``, ``TokenOutOfRange``, ``ContextFull``, ``CacheBudget`` or
    ``ParametersChanged`` before any block runs, and ``NonFinite``.
    """
    if session.position:
        raise CacheFilled(
            f"the cache holds {session.position} positions; a prefill needs an empty one, so open another "
            "session or decode"
        )
    return _append(model, context, session, ids)


def decode(model: LanguageModel, context: NoGrad, session: Session, token: int) -> F64:
    """Append one token to a prefilled session and return its logits ``[V]``.

    Raises ``CacheEmpty``, and what a prefill raises.
    """
    if not session.position:
        raise CacheEmpty("the cache holds no position; a decode needs a prefilled one, so prefill a prompt")
    logits: F64 = _append(model, context, session, [token])[0]  # [1, V] -> [V]
    return logits


def _append(model: LanguageModel, context: NoGrad, session: Session, ids: Sequence[int]) -> F64:
    start = session.position
    tokens = model.check_tokens(ids, field="ids")
    model.check_room(start, tokens.size, field="ids")
    work = work_of(model.configuration, start, tokens.size, prefill=start == 0)
    with Transaction(session.cache, tokens.size) as transaction:
        hidden = model.forward(context, [text_segment(transaction, tokens)])
        logits = model.logits(context, hidden)
        transaction.keep_hidden(hidden)
        session.commit(transaction, tokens, work)
    return logits
