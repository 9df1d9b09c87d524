"""The model's map: a tree of modules, and the weight that two of them share."""

from __future__ import annotations

import math
from dataclasses import dataclass

from zeroulp.model.configuration import Configuration
from zeroulp.model.parameters import TABLE
from zeroulp.model.tracing.stages import block_stages


@dataclass(frozen=True, slots=True)
class Output:
    """A traced stage that a module computes: the snapshot's name, and the features of one row."""

    name: str
    features: int


@dataclass(frozen=True, slots=True)
class MapParameter:
    """A learned tensor that a module owns."""

    name: str
    shape: tuple[int, ...]

    @property
    def count(self) -> int:
        """Learned scalars."""
        return math.prod(self.shape)


@dataclass(frozen=True, slots=True)
class Module:
    """One part of the model: what it owns itself, what it computes, and the parts inside it."""

    name: str
    parameter: MapParameter | None = None
    outputs: tuple[Output, ...] = ()
    modules: tuple[Module, ...] = ()

    @property
    def count(self) -> int:
        """Learned scalars that it and the modules inside it own."""
        own = self.parameter.count if self.parameter is not None else 0
        return own + sum(module.count for module in self.modules)


@dataclass(frozen=True, slots=True)
class SharedWeight:
    """An edge between the module that owns a parameter and one that borrows it."""

    parameter: str
    owner: str
    borrower: str


@dataclass(frozen=True, slots=True)
class ModelMap:
    """The whole: its top modules in order, and the edges across the tree."""

    modules: tuple[Module, ...]
    shared_weights: tuple[SharedWeight, ...]

    @property
    def count(self) -> int:
        """Learned scalars in all; a shared weight counts where it is owned, once."""
        return sum(module.count for module in self.modules)


def map_of(configuration: Configuration) -> ModelMap:
    """Return the map of a model; input and output share the table in one edge."""
    shapes = configuration.parameter_shapes()
    D, V = configuration.model_width, configuration.vocabulary_size
    blocks = tuple(_block(configuration, shapes, layer) for layer in range(configuration.layers))
    modules = (
        Module("token_embedding", MapParameter(TABLE, shapes[TABLE]), (Output("embed", D),)),
        *blocks,
        Module("final_norm", _owned(shapes, "final_norm.gain"), (Output("final_norm", D),)),
        Module("output_head", None, (Output("logits", V),)),
    )
    return ModelMap(modules, (SharedWeight(TABLE, "token_embedding", "output_head"),))


def _owned(shapes: dict[str, tuple[int, ...]], name: str) -> MapParameter:
    return MapParameter(name, shapes[name])


def _block(configuration: Configuration, shapes: dict[str, tuple[int, ...]], layer: int) -> Module:
    features = block_stages(configuration)
    block = f"blocks.{layer}"

    def outputs(*stages: str) -> tuple[Output, ...]:
        return tuple(Output(f"{block}.{stage}", features[stage]) for stage in stages)

    def norm(name: str) -> Module:
        return Module(f"{block}.{name}", _owned(shapes, f"{block}.{name}.gain"), outputs(name))

    def matrix(name: str, *stages: str) -> Module:
        return Module(f"{block}.{name}", _owned(shapes, f"{block}.{name}.weight"), outputs(*stages))

    attention = (
        matrix("attention.query", "query", "query_rope"),
        matrix("attention.key", "key", "key_rope"),
        matrix("attention.value", "value"),
        matrix("attention.output", "attention_output"),
    )
    ffn = (matrix("ffn.gate", "gate"), matrix("ffn.up", "up"), matrix("ffn.down", "down"))
    inside = (
        norm("attention_norm"),
        Module(f"{block}.attention", None, outputs("attention"), attention),
        norm("ffn_norm"),
        Module(f"{block}.ffn", None, outputs("swiglu"), ffn),
    )
    return Module(block, None, outputs("attention_residual", "ffn_residual"), inside)
