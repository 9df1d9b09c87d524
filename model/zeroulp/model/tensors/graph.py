"""Gradients back through a recorded graph, in one defined order.

Tensors are numbered in the order in which a depth-first walk from the result finishes them, parents before
children and an operation's parents in the order of its arguments. A node that several operations read gets
the sum of their gradients, starting at +0.0, in ascending order of those operations. So a gradient's bits
depend on the graph alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from zeroulp.model.errors import NotTracked, StaleRevision
from zeroulp.model.kernels.arrays import F64
from zeroulp.model.tensors.node import Node
from zeroulp.model.tensors.tensor import Tensor


@dataclass(frozen=True, slots=True)
class Kept:
    """What a graph holds on to: recorded tensors, and the float64 values in them."""

    tensors: int
    values: int


def backward(result: Tensor, *, keep_graph: bool = False) -> None:
    """Add the gradient of a one-valued result to ``gradient`` of every node it was computed from that learns.

    Raises ``NotTracked``, ``GraphReleased`` or ``StaleRevision`` before anything is computed, with no
    gradient changed. The graph is released unless ``keep_graph``.
    """
    if result.raw.size != 1:
        raise NotTracked(f"backward starts from one value, not from {result.label}")
    order = _checked_order(result)
    found = _gradients(order, result, np.ones(result.shape))
    for node, gradient in found.items():
        if node.learns:
            node.add_gradient(gradient)
    if not keep_graph:
        for tensor in order:
            if tensor.record is not None:
                tensor.record.release()


def gradients_of(result: Tensor, dy: F64, wanted: Sequence[Node]) -> list[F64]:
    """Return the gradients of the ``wanted`` nodes for dy, of the result's shape; changes no node."""
    found = _gradients(_checked_order(result), result, dy)
    return [found[node] if node in found else np.zeros(node.shape) for node in wanted]


def kept(result: Tensor) -> Kept:
    """Return what the graph behind ``result`` keeps, the result included and its leaves not."""
    recorded = [tensor for tensor in _order(result) if tensor.record is not None]
    return Kept(len(recorded), sum(tensor.raw.size for tensor in recorded))


def _order(result: Tensor) -> list[Tensor]:
    """Return the recorded tensors behind ``result``, parents first."""
    order: list[Tensor] = []
    seen: set[Node] = set()
    stack: list[tuple[Node, bool]] = [(result, False)]
    while stack:
        node, finished = stack.pop()
        if not isinstance(node, Tensor):
            continue
        if finished:
            order.append(node)
        elif node not in seen:
            seen.add(node)
            stack.append((node, True))
            stack.extend((parent, False) for parent, _ in reversed(_parents(node)))
    return order


def _parents(tensor: Tensor) -> Sequence[tuple[Node, int]]:
    return tensor.record.parents if tensor.record is not None else ()


def _checked_order(result: Tensor) -> list[Tensor]:
    if not result.tracked:
        raise NotTracked(f"{result.label} was not recorded from anything that learns")
    if result.record is not None and result.revision:
        raise StaleRevision(f"{result.label} was given another value than the forward computed")
    order = _order(result)
    for tensor in order:
        if tensor.record is not None:
            tensor.record.check()
    return order


def _gradients(order: Sequence[Tensor], result: Tensor, dy: F64) -> dict[Node, F64]:
    """Return the gradient of every tracked node behind ``result``."""
    # Operations are visited from the last to the first; each node's are summed the other way round.
    pending: dict[Node, list[F64]] = {result: [dy]}
    found: dict[Node, F64] = {}
    for tensor in reversed(order):
        if tensor not in pending:
            continue
        total = found[tensor] = _ascending_sum(tensor, pending.pop(tensor))
        if tensor.record is None:
            continue
        # The arguments of one operation ascend as well, though all are pushed on one list's end.
        for node, gradient in reversed(tensor.record.gradients(total)):
            if node.tracked:
                pending.setdefault(node, []).append(gradient)
    found.update((node, _ascending_sum(node, descending)) for node, descending in pending.items())
    return found


def _ascending_sum(node: Node, descending: Iterable[F64]) -> F64:
    first, *others = [gradient.reshape(node.shape) for gradient in reversed(list(descending))]
    total: F64 = 0.0 + first  # makes a zero of either sign +0.0, and a copy
    for gradient in others:
        total += gradient
    return total
