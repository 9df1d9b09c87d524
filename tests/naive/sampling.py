"""Drawing a token by the words of the definition, on lists of floats."""

from __future__ import annotations

from collections.abc import Sequence

from naive import elementary, splitmix
from zeroulp.model.sampling import SamplingParameters


def penalised(z: Sequence[float], p: SamplingParameters, tokens: Sequence[int], start: int) -> list[float]:
    out = list(z)
    for token in set(tokens):
        if p.repetition_penalty != 1.0:
            positive = out[token] > 0.0
            out[token] = out[token] / p.repetition_penalty if positive else out[token] * p.repetition_penalty
    for token in set(tokens[start:]):
        out[token] -= p.presence_penalty + p.frequency_penalty * tokens[start:].count(token)
    return out


def best_entries(z: Sequence[float], count: int) -> list[int]:
    return sorted(range(len(z)), key=lambda v: (-z[v], v))[:count]


def weights(z: Sequence[float], temperature: float) -> list[float]:
    top = max(z)
    return [elementary.exp((value - top) / temperature) for value in z]


def ascending_sum(values: Sequence[float]) -> float:
    total = 0.0
    for value in values:
        total = total + value
    return total


def kept_ids(z: Sequence[float], w: Sequence[float], p: SamplingParameters) -> list[int]:
    kept = list(range(len(z)))
    if p.top_k > 0:
        kept = best_entries(z, p.top_k)
    if p.min_p > 0.0:
        kept = [v for v in kept if w[v] >= p.min_p]
    if p.top_p < 1.0:
        ranked = sorted(kept, key=lambda v: (-z[v], v))
        share = p.top_p * ascending_sum([w[v] for v in ranked])
        count = 1
        while count < len(ranked) and ascending_sum([w[v] for v in ranked[:count]]) < share:
            count += 1
        kept = ranked[:count]
    return sorted(kept)


def drawn(w: Sequence[float], kept: Sequence[int], unit: float) -> int:
    threshold = unit * ascending_sum([w[v] for v in kept])
    for count, token in enumerate(kept, 1):
        if ascending_sum([w[v] for v in kept[:count]]) > threshold:
            return token
    return kept[-1]


def draw(z: Sequence[float], p: SamplingParameters, seed: int, tokens: Sequence[int], start: int) -> int:
    z = penalised(z, p, tokens, start)
    if p.temperature < 1e-5:
        return z.index(max(z))
    w = weights(z, p.temperature)
    return drawn(w, kept_ids(z, w, p), splitmix.keyed_unit(seed, len(tokens)))
