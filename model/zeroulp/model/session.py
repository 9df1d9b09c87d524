"""A sequence of committed tokens with its caches and its work."""

from __future__ import annotations

from dataclasses import dataclass, field

from zeroulp.model.cache.sequence_cache import SequenceCache
from zeroulp.model.cache.transaction import Transaction
from zeroulp.model.kernels.arrays import F64, I64
from zeroulp.model.work import Work


@dataclass(slots=True, eq=False)
class Session:
    """Owned by the compute thread.

    Invariant: ``len(tokens) == cache.length == total_work.token_forwards``.
    """

    cache: SequenceCache
    tokens: list[int] = field(default_factory=list)
    total_work: Work = field(default_factory=Work)
    last_hidden: F64 | None = None
    """The newest position's row of H ``[D]``: the head gives the same logits from it at any time."""

    @property
    def position(self) -> int:
        """Committed tokens."""
        return len(self.tokens)

    def commit(self, transaction: Transaction, ids: I64, last_hidden: F64, work: Work) -> None:
        """Publish the transaction's rows together with tokens, counters and newest hidden row."""
        total = self.total_work + work  # may overflow, so before the publish
        transaction.commit()
        self.tokens.extend(ids.tolist())
        self.total_work = total
        self.last_hidden = last_hidden
        self.check_integrity()

    def check_integrity(self) -> None:
        """Raise ``RuntimeError`` unless tokens, cache and counters agree."""
        if not len(self.tokens) == self.cache.length == self.total_work.token_forwards <= self.cache.capacity:
            raise RuntimeError(
                f"{len(self.tokens)} tokens, {self.cache.length} rows, "
                f"{self.total_work.token_forwards} forwards"
            )
