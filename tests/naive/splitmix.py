"""SplitMix64 and what is drawn from it, on plain integers."""

from __future__ import annotations

from collections.abc import Iterator

MASK = 2**64 - 1


def outputs(seed: int) -> Iterator[int]:
    state = seed
    while True:
        state = (state + 0x9E3779B97F4A7C15) & MASK
        z = state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        yield z ^ (z >> 31)


def units(seed: int) -> Iterator[float]:
    for output in outputs(seed):
        yield (output >> 11) / 2**53


def keyed_unit(seed: int, position: int) -> float:
    """The draw ``position`` of the stream whose seed is the first output of stream ``seed``."""
    stream = units(next(outputs(seed)))
    for _ in range(position):
        next(stream)
    return next(stream)
