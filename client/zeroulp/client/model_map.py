"""The model's map: a tree of modules, and the weight that two of them share."""

from __future__ import annotations

from dataclasses import dataclass

from zeroulp.client.parameter import ParameterInfo, parameter_of
from zeroulp.v1 import decoder_pb2


@dataclass(frozen=True, slots=True)
class ModuleOutput:
    """A named activation that a module computes."""

    name: str
    """As a trace names it."""
    features: int
    """Values of one position."""


@dataclass(frozen=True, slots=True)
class Module:
    """One part of the model: what it owns itself, what it computes, and the parts inside it."""

    name: str
    """The whole path, "blocks.0.attention.query"."""
    parameter: ParameterInfo | None
    """None also where a parameter is borrowed: that is an edge of the map."""
    parameter_count: int
    """Learned scalars that it and the modules inside it own."""
    outputs: tuple[ModuleOutput, ...]
    modules: tuple[Module, ...]


@dataclass(frozen=True, slots=True)
class SharedWeight:
    """A parameter that one module owns and another borrows."""

    parameter: str
    owner: str
    borrower: str


@dataclass(frozen=True, slots=True)
class ModelMap:
    """The top modules in the order of a pass, and the edges across the tree."""

    modules: tuple[Module, ...]
    shared_weights: tuple[SharedWeight, ...]


def model_map_of(message: decoder_pb2.ModelMap) -> ModelMap:
    """Return what a message holds."""
    return ModelMap(
        tuple(_module_of(module) for module in message.modules),
        tuple(SharedWeight(edge.parameter, edge.owner, edge.borrower) for edge in message.shared_weights),
    )


def _module_of(message: decoder_pb2.Module) -> Module:
    return Module(
        name=message.name,
        parameter=parameter_of(message.parameter) if message.HasField("parameter") else None,
        parameter_count=message.parameter_count,
        outputs=tuple(ModuleOutput(output.name, output.features) for output in message.outputs),
        modules=tuple(_module_of(module) for module in message.modules),
    )
