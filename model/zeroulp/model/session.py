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

    Invariant: ``len(tokens) == cache.length``, and the counters cover them: a token was computed, or reused
    from another session. What was computed and cut off again stays counted.
    """

    cache: SequenceCache
    tokens: list[int] = field(default_factory=list)
    total_work: Work = field(default_factory=Work)

    @property
    def position(self) -> int:
        """Committed tokens."""
        return len(self.tokens)

    @property
    def is_current(self) -> bool:
        """Whether the parameters are those that the rows were made with."""
        return self.cache.is_current

    @property
    def last_hidden(self) -> F64:
        """The newest position's row of H ``[1, D]``: the head gives the same logits from it at any time."""
        return self.cache.hidden(self.position - 1, 1)

    def commit(self, transaction: Transaction, ids: I64, work: Work) -> None:
        """Publish the transaction's rows together with tokens and counters."""
        if not transaction.is_complete:
            raise RuntimeError("rows of H are missing: the logits after the new tokens would be lost")
        total = self.total_work + work  # may overflow, so before the publish
        transaction.commit()
        self.tokens.extend(ids.tolist())
        self.total_work = total
        self.check_integrity()

    def reuse(self, other: Session, count: int) -> None:
        """Begin an empty session with the first ``count`` tokens of another, whose rows it shares."""
        other.cache.share_with(self.cache, count)
        self.tokens = other.tokens[:count]
        self.total_work = Work(reused_tokens=count)
        self.check_integrity()

    def truncate(self, position: int) -> None:
        """Roll back to the first ``position`` tokens, as if the later ones had never been committed."""
        self.cache.truncate(position)
        del self.tokens[position:]
        self.check_integrity()

    def check_integrity(self) -> None:
        """Raise ``RuntimeError`` unless tokens, cache and counters agree."""
        covered = self.total_work.token_forwards + self.total_work.reused_tokens
        if not len(self.tokens) == self.cache.length <= min(covered, self.cache.capacity):
            raise RuntimeError(
                f"{len(self.tokens)} tokens, {self.cache.length} rows, {covered} computed or reused"
            )
