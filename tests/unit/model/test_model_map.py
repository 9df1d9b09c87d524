"""The map names every parameter once, every traced stage once, and the one weight that is shared."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from unit.model import models
from zeroulp.model.loading import load
from zeroulp.model.parameters import TABLE
from zeroulp.model.tracing.model_map import Module, SharedWeight, map_of
from zeroulp.model.tracing.stages import stages_of


def walk(modules: Iterable[Module]) -> Iterator[Module]:
    for module in modules:
        yield module
        yield from walk(module.modules)


def test_every_parameter_is_owned_once() -> None:
    owned = [m.parameter for m in walk(map_of(models.SMALL).modules) if m.parameter is not None]
    assert sorted(p.name for p in owned) == sorted(models.SMALL.parameter_shapes())
    assert all(models.SMALL.parameter_shapes()[p.name] == p.shape for p in owned)


def test_every_stage_is_computed_once() -> None:
    outputs = [(o.name, o.features) for m in walk(map_of(models.SMALL).modules) for o in m.outputs]
    assert sorted(outputs) == sorted((stage.name, stage.features) for stage in stages_of(models.SMALL))


def test_names_are_paths() -> None:
    for module in walk(map_of(models.SMALL).modules):
        assert all(inner.name.startswith(f"{module.name}.") for inner in module.modules)


def test_one_edge_of_shared_weight_and_its_table_counted_once() -> None:
    model_map = map_of(load("glass-default").model.configuration)
    assert model_map.shared_weights == (SharedWeight(TABLE, "token_embedding", "output_head"),)
    first, last = model_map.modules[0], model_map.modules[-1]
    assert (first.name, first.count) == ("token_embedding", 131_072)
    assert (last.name, last.parameter, last.count) == ("output_head", None, 0)
    assert model_map.count == 852_608
    assert map_of(load("boundary-39").model.configuration).count == 1372
