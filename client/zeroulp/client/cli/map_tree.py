"""The model's map as a tree for a terminal. Needs rich."""

from __future__ import annotations

import sys

from rich.console import Console
from rich.text import Text
from rich.tree import Tree

from zeroulp.client.model import Model
from zeroulp.client.model_map import Module, SharedWeight

WIDTH = 1000
"""Columns: more than any line has, so that a module is one line, also for the reader of a pipe."""


def say_map(model: Model) -> None:
    """Write the tree to stdout: parameters with their shapes, and what each module computes."""
    tree = Tree(Text(f"{model.name}: {model.parameter_count:,} parameters, shared ones counted once"))
    for module in model.model_map.modules:
        _grow(tree, module, "", model.model_map.shared_weights)
    Console(file=sys.stdout, width=WIDTH, highlight=False).print(tree)


def _grow(tree: Tree, module: Module, parent: str, edges: tuple[SharedWeight, ...]) -> None:
    branch = tree.add(Text(_label(module, parent, edges)))
    for inner in module.modules:
        _grow(branch, inner, f"{module.name}.", edges)


def _label(module: Module, parent: str, edges: tuple[SharedWeight, ...]) -> str:
    """Return "query: weight [128, 128] = 16,384 -> query [T, 128], query_rope [T, 128]"."""
    said = []
    if module.parameter is not None:
        name = module.parameter.name.removeprefix(f"{module.name}.")
        said.append(f"{name} {list(module.parameter.shape)} = {module.parameter_count:,}")
    elif module.parameter_count:
        said.append(f"{module.parameter_count:,}")
    said += [f"shares {edge.parameter} with {edge.owner}" for edge in edges if edge.borrower == module.name]
    block = ".".join(parent.split(".")[:2]) + "."  # where the tensors' names begin, inside a block
    outputs = [f"{output.name.removeprefix(block)} [T, {output.features}]" for output in module.outputs]
    return f"{module.name.removeprefix(parent)}: {', '.join(said)} -> {', '.join(outputs)}"
