"""Seeded models have the same scalars everywhere: SplitMix64, Xavier, and the order of the draws."""

from __future__ import annotations

import math
from itertools import islice

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from naive import splitmix
from unit.model import models
from zeroulp.model.initialisation import SplitMix64, initialised, keyed_unit, splitmix64, unit_value
from zeroulp.model.library.catalogue import BUILT_IN

PUBLISHED = [  # for seed 1234567, from Rosetta Code's task "Pseudo-random numbers/Splitmix64"
    6457827717110365317,
    3203168211198807973,
    9817491932198370423,
    4593380528125082431,
    16408922859458223821,
]
SEEDS = st.one_of(st.integers(0, 2**64 - 1), st.sampled_from([0, 1, 2**63, 2**64 - 1]))


def test_published_vectors() -> None:
    assert list(islice(splitmix.outputs(1234567), 5)) == PUBLISHED
    assert [splitmix64((1234567 + n * 0x9E3779B97F4A7C15) % 2**64) for n in range(1, 6)] == PUBLISHED
    assert SplitMix64(1234567).units(5).tolist() == [(output >> 11) / 2**53 for output in PUBLISHED]


@given(SEEDS, st.lists(st.integers(0, 30), min_size=1, max_size=5))
def test_stream_in_pieces_is_the_plain_loop(seed: int, counts: list[int]) -> None:
    stream, plain = SplitMix64(seed), splitmix.units(seed)
    for count in counts:
        assert stream.units(count).tobytes() == np.array([*islice(plain, count)], np.float64).tobytes()


def test_unit_value() -> None:
    assert unit_value(0) == unit_value(2**11 - 1) == 0.0
    assert unit_value(2**11) == 2.0**-53
    assert unit_value(2**64 - 1) == 1.0 - 2.0**-53


@given(SEEDS, st.integers(0, 40))
def test_keyed_unit(seed: int, position: int) -> None:
    assert keyed_unit(seed, position) == splitmix.keyed_unit(seed, position)


def test_keyed_units_of_neighbours_differ() -> None:
    units = {keyed_unit(seed, position) for seed in range(50) for position in range(50)}
    assert len(units) == 2500


@pytest.mark.parametrize("seed", [0, 7, 39, 2**64 - 1])
def test_values_and_order_of_the_draws(seed: int) -> None:
    c, plain = models.SMALL, splitmix.units(seed)
    order = ["token_embedding.weight"]
    for layer in range(c.layers):
        for name in ("query", "key", "value", "output"):
            order.append(f"blocks.{layer}.attention.{name}.weight")
        for name in ("gate", "up", "down"):
            order.append(f"blocks.{layer}.ffn.{name}.weight")
    values = dict(initialised(c, seed))
    for name in order:
        rows, columns = values[name].shape
        bound = math.sqrt(6.0 / (rows + columns))
        want = [[bound * (2.0 * next(plain) - 1.0) for _ in range(columns)] for _ in range(rows)]
        assert values[name].tobytes() == np.array(want).tobytes(), name
    gains = values.keys() - set(order)
    assert len(gains) == 2 * c.layers + 1
    assert all(values[name].tobytes() == np.ones(c.model_width).tobytes() for name in gains)


def test_names_in_order() -> None:
    assert [name for name, _ in initialised(BUILT_IN["boundary-39"].configuration, 39)] == [
        "token_embedding.weight",
        *(
            f"blocks.{layer}.{name}"
            for layer in range(2)
            for name in (
                "attention_norm.gain",
                "attention.query.weight",
                "attention.key.weight",
                "attention.value.weight",
                "attention.output.weight",
                "ffn_norm.gain",
                "ffn.gate.weight",
                "ffn.up.weight",
                "ffn.down.weight",
            )
        ),
        "final_norm.gain",
    ]


@pytest.mark.parametrize(
    ("name", "count", "tensors", "table"),
    [("boundary-39", 1372, 20, 1032), ("glass-default", 852_608, 38, 131_072)],
)
def test_counts(name: str, count: int, tensors: int, table: int) -> None:
    shapes = BUILT_IN[name].configuration.parameter_shapes()
    assert sum(math.prod(shape) for shape in shapes.values()) == count
    assert len(shapes) == tensors
    assert math.prod(shapes["token_embedding.weight"]) == table
