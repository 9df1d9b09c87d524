"""Which open session begins with the most of a prompt's tokens."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from itertools import chain
from typing import TYPE_CHECKING

from zeroulp.model.kernels.cache_rows import BLOCK

if TYPE_CHECKING:
    from zeroulp.server.engine.session_table import OpenSession


def chained_key(before: int, tokens: tuple[int, ...]) -> int:
    """Return a key for a run of blocks: the key of all but the last, and the last one's tokens."""
    return hash((before, tokens))


class PrefixIndex:
    """Runs of whole blocks that sessions begin with. Owned by the compute thread.

    A key narrows the search only: tokens are always compared, so that two runs of one key are still two.
    """

    def __init__(self, key: Callable[[int, tuple[int, ...]], int] = chained_key) -> None:
        self._key = key
        self._keys: dict[OpenSession, list[int]] = {}
        self._holders: dict[int, list[OpenSession]] = {}

    def sync(self, opened: OpenSession) -> None:
        """Take note of what a session has grown by, or been cut to."""
        keys = self._keys.setdefault(opened, [])
        tokens = opened.session.tokens
        while len(keys) > len(tokens) // BLOCK:
            self._forget(keys.pop(), opened)
        for key in self._extend(keys, tokens):
            self._holders.setdefault(key, []).append(opened)

    def remove(self, opened: OpenSession) -> None:
        """Forget a session."""
        for key in self._keys.pop(opened, []):
            self._forget(key, opened)

    def longest(self, ids: Sequence[int]) -> tuple[OpenSession, int] | None:
        """Return a session that begins with the most whole blocks of ``ids``, and how many tokens they are.

        Whole blocks only: nobody writes to them any more, so that sharing them takes no room from a call
        that has reserved its own.
        """
        keys = self._extend([], ids)
        for blocks in range(len(keys), 0, -1):
            count = blocks * BLOCK
            for holder in reversed(self._holders.get(keys[blocks - 1], [])):
                session = holder.session
                if session.tokens[:count] == ids[:count] and session.is_current:
                    return holder, count
        return None

    def check_integrity(self, open_sessions: Collection[OpenSession]) -> None:
        """Raise ``RuntimeError`` unless it knows these sessions, and each by all whole blocks it has."""
        blocks = {opened: len(opened.session.tokens) // BLOCK for opened in open_sessions}
        known = {opened: len(keys) for opened, keys in self._keys.items()}
        holders = Counter(chain.from_iterable(self._holders.values()))
        if not (known == blocks and holders == Counter(blocks)):
            raise RuntimeError("the prefix index does not know the sessions as they are")

    def _extend(self, keys: list[int], tokens: Sequence[int]) -> list[int]:
        """Append the keys of the whole blocks that ``keys`` has none for yet; return the new ones."""
        known = len(keys)
        for start in range(known * BLOCK, len(tokens) // BLOCK * BLOCK, BLOCK):
            keys.append(self._key(keys[-1] if keys else 0, tuple(tokens[start : start + BLOCK])))
        return keys[known:]

    def _forget(self, key: int, opened: OpenSession) -> None:
        holders = self._holders[key]
        holders.remove(opened)
        if not holders:
            del self._holders[key]
