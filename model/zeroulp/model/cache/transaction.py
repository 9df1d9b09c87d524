"""All rows of a call in all layers, or none."""

from __future__ import annotations

from types import TracebackType

from zeroulp.model.cache.layer_cache import Ticket
from zeroulp.model.cache.sequence_cache import SequenceCache
from zeroulp.model.kernels.arrays import F64


class Transaction:
    """Room for ``count`` rows past a sequence's length, filled chunk by chunk and published at once.

    Used as a context manager: leaving it without ``commit`` gives the room back, and keys, values and
    length are as if it had never been entered.
    """

    def __init__(self, cache: SequenceCache, count: int) -> None:
        cache.check_parameters()
        self._capacity_before = cache.capacity
        cache.reserve(count)
        self.cache = cache
        self.count = count
        self.start = cache.length
        self._tickets: list[list[Ticket]] = [[] for _ in cache.layers]
        self._hidden = self.start
        self._open = True

    @property
    def next_position(self) -> int:
        """The position of the next row to prepare: the same in all layers between chunks."""
        last = self._tickets[-1]
        return last[-1].first + last[-1].count if last else self.start

    def add(self, ticket: Ticket) -> None:
        """Take a layer's prepared rows."""
        self._tickets[ticket.layer.index].append(ticket)

    def keep_hidden(self, rows: F64) -> None:
        """Keep the next rows ``[n, D]`` of H beside the layers' rows."""
        self.cache.keep_hidden(self._hidden, rows)
        self._hidden += len(rows)

    @property
    def is_complete(self) -> bool:
        """Whether the rows of H are there for all rows."""
        return self._hidden == self.start + self.count

    def discard(self, position: int) -> None:
        """Forget the rows that were prepared from ``position`` on: a step that failed is run again."""
        for tickets in self._tickets:
            while tickets and tickets[-1].first >= position:
                tickets.pop()

    def commit(self) -> None:
        """Publish every layer's rows; raises and publishes nothing if a ticket does not fit its cache."""
        if not self._open:
            raise RuntimeError("the transaction is over: its rows may have been written over since")
        self.cache.check_parameters()
        for layer, tickets in zip(self.cache.layers, self._tickets, strict=True):
            expected = self.start
            for ticket in tickets:
                if (
                    ticket.layer is not layer
                    or ticket.committed != self.cache.length
                    or ticket.first != expected
                ):
                    raise RuntimeError(f"layer {layer.index}: a ticket targets another cache or position")
                expected += ticket.count
            if expected != self.start + self.count:
                raise RuntimeError(
                    f"layer {layer.index}: {expected - self.start} of {self.count} rows prepared"
                )
        self.cache.publish(self.count)
        self._open = False

    def rollback(self) -> None:
        """Drop the prepared rows, unless they were committed."""
        if self._open:
            self._open = False
            self.cache.trim(self._capacity_before)

    def __enter__(self) -> Transaction:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.rollback()
