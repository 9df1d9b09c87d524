"""Parameters are nodes with an identity and a revision; the table stands once."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from unit.model import models
from zeroulp.model.errors import UnsupportedModel
from zeroulp.model.initialisation import initialised
from zeroulp.model.parameters import TABLE, Parameter, ParameterInventory

SHAPES = models.SMALL.parameter_shapes()


def inventory(**changes: object) -> ParameterInventory:
    values = dict(initialised(models.SMALL, 1))
    return ParameterInventory(models.SMALL, {**values, **changes}.items())  # type: ignore[arg-type]


def test_values_come_back() -> None:
    nodes = inventory()
    for name, values in initialised(models.SMALL, 1):
        assert nodes[name].shape == SHAPES[name] == values.shape
        assert nodes[name].values().tobytes() == values.tobytes()


def test_counts() -> None:
    nodes = inventory()
    assert list(nodes) == list(SHAPES)
    assert nodes.count == sum(int(np.prod(shape)) for shape in SHAPES.values())
    assert nodes.nbytes == sum(node.nbytes for node in nodes.values())
    assert len(nodes) == 2 + 9 * models.SMALL.layers


def test_table_is_packed_over_the_vocabulary() -> None:
    table = inventory()[TABLE]
    assert (table.matrix.depth, table.matrix.width) == (
        models.SMALL.model_width,
        models.SMALL.vocabulary_size,
    )


def test_lookup_and_head_share_the_node() -> None:
    model = models.seeded(models.SMALL, 1)
    assert model.table is model.head.table is model.parameters[TABLE]


def test_blocks_and_final_norm_borrow_the_nodes() -> None:
    model = models.seeded(models.SMALL, 1)
    borrowed = {id(model.head.table), id(model.backbone.final_norm)}
    for block in model.backbone.blocks:
        borrowed |= {id(node) for node in vars(block).values() if isinstance(node, Parameter)}
    assert borrowed == {id(node) for node in model.parameters.values()}


@pytest.mark.parametrize("name", SHAPES)
def test_missing_and_misshapen_are_refused(name: str) -> None:
    values = dict(initialised(models.SMALL, 1))
    rest = {other: array for other, array in values.items() if other != name}
    with pytest.raises(UnsupportedModel, match=f"{name} is missing"):
        ParameterInventory(models.SMALL, rest.items())
    with pytest.raises(UnsupportedModel, match=name):
        inventory(**{name: np.ones((*SHAPES[name][:-1], SHAPES[name][-1] + 1))})


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(UnsupportedModel, match=r"lm_head\.weight"):
        inventory(**{"lm_head.weight": np.ones((29, 12))})


def test_a_new_value_is_a_new_revision() -> None:
    nodes = inventory()
    before = nodes.revisions()
    for count, (name, shape) in enumerate(SHAPES.items(), 1):
        node = nodes[name]
        node.set_value(np.full(shape, 0.25))
        assert node.revision == 1
        assert node.values().tobytes() == np.full(shape, 0.25).tobytes()
        assert sum(old != now for old, now in zip(before, nodes.revisions(), strict=True)) == count


def test_equal_values_are_a_new_revision_too() -> None:
    node = inventory()["final_norm.gain"]
    node.set_value(node.values())
    assert node.revision == 1


def test_a_value_of_another_shape_changes_nothing() -> None:
    node = inventory()[TABLE]
    before = node.values().tobytes()
    with pytest.raises(ValueError, match=r"token_embedding.weight: shape \(3, 4\)"):
        node.set_value(np.ones((3, 4)))
    assert node.revision == 0
    assert node.values().tobytes() == before


def test_values_are_copies() -> None:
    nodes = inventory()
    for node in nodes.values():
        before = node.values().tobytes()
        node.values()[...] = 7.0
        assert node.values().tobytes() == before
    given = np.ones(12)
    nodes["final_norm.gain"].set_value(given)
    given[:] = 9.0
    assert (nodes["final_norm.gain"].vector == 1.0).all()


def test_matrix_and_vector_are_not_mixed_up() -> None:
    nodes = inventory()
    with pytest.raises(TypeError, match="is a matrix"):
        _ = nodes[TABLE].vector
    with pytest.raises(TypeError, match="is a vector"):
        _ = nodes["final_norm.gain"].matrix


def test_digest() -> None:
    digest = hashlib.sha256()
    for name, values in initialised(models.SMALL, 1):
        digest.update(f"{name} {values.shape}\n".encode() + values.astype("<f8").tobytes())
    nodes = inventory()
    assert nodes.digest() == digest.hexdigest()
    flipped = nodes["final_norm.gain"].values()
    flipped[3] = np.nextafter(flipped[3], 2.0)
    nodes["final_norm.gain"].set_value(flipped)
    assert nodes.digest() != digest.hexdigest()
