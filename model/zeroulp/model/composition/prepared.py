"""The checked boundary: vectors of any source on their way into a backbone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from zeroulp.model.composition.layout import SequenceLayout
from zeroulp.model.context import Execution
from zeroulp.model.errors import (
    BackboneChanged,
    EmptyProvenance,
    ForeignBackbone,
    InputChanged,
    MalformedLayout,
    PositionOutOfCapacity,
    ProducerChanged,
    TooManyRows,
    TrackedInput,
    WrongWidth,
)
from zeroulp.model.tensors.node import Node
from zeroulp.model.tensors.tensor import Tensor

if TYPE_CHECKING:
    from zeroulp.model.composition.backbone import DecoderBackbone

Nodes = tuple[Node, ...]


class InputEncoder(Protocol):
    """A source of vectors. What can be wrong with the source is the encoder's own to check."""

    def encode(self, context: Execution[Any], backbone: DecoderBackbone) -> PreparedInput:
        """Return the source's vectors, prepared for ``backbone``."""


@dataclass(frozen=True, slots=True, eq=False)
class PreparedInput:
    """Embeddings ``[B, T, D]`` with everything that they may be used with.

    ``provenance`` is a description for people and authorises nothing. The bindings name the exact nodes and
    their revisions: of the backbone, of what produced the vectors, and of the vectors. Made by `prepare`.
    """

    embeddings: Tensor
    context: Execution[Any]
    layout: SequenceLayout
    provenance: str
    backbone: Nodes
    backbone_revisions: list[int]
    producers: Nodes
    producer_revisions: list[int]
    revision: int

    def check(self, backbone: DecoderBackbone, context: Execution[Any]) -> None:
        """Raise the ``InputRefused`` that says why ``backbone`` may not consume this under ``context``."""
        _check_embeddings(self.embeddings, context, self.layout, backbone)
        _check_provenance(self.provenance)
        if self.context.records != context.records:
            raise TrackedInput(
                f"the vectors were encoded {_policy(self.context)} and are consumed {_policy(context)}"
            )
        _check_owner(self.backbone, backbone.nodes)
        for node, revision in _moved(self.backbone, self.backbone_revisions):
            raise BackboneChanged(_told(node, revision))
        for node, revision in _moved(self.producers, self.producer_revisions):
            raise ProducerChanged(_told(node, revision))
        if self.embeddings.revision != self.revision:
            raise InputChanged(_told(self.embeddings, self.revision))


def prepare(
    context: Execution[Any],
    backbone: DecoderBackbone,
    embeddings: Tensor,
    layout: SequenceLayout,
    provenance: str,
    producers: Sequence[Node],
) -> PreparedInput:
    """Bind vectors to the present state of the backbone and of the nodes that made them.

    Raises an ``InputRefused``, before any block runs, for what the backbone would not take.
    """
    _check_embeddings(embeddings, context, layout, backbone)
    _check_provenance(provenance)
    return PreparedInput(
        embeddings,
        context,
        layout,
        provenance,
        backbone.nodes,
        revisions_of(backbone.nodes),
        tuple(producers),
        revisions_of(producers),
        embeddings.revision,
    )


def _check_embeddings(
    embeddings: Tensor, context: Execution[Any], layout: SequenceLayout, backbone: DecoderBackbone
) -> None:
    B, T = layout.shape
    D, capacity = backbone.configuration.model_width, backbone.configuration.max_positions
    shape = embeddings.shape
    if len(shape) != 3 or shape[:2] != (B, T):
        raise MalformedLayout(f"vectors of shape {list(shape)} were given for a layout of [{B}, {T}]")
    if shape[2] != D:
        raise WrongWidth(f"vectors of width {shape[2]} were given; the backbone takes {D}")
    if layout.before + T > capacity:
        raise TooManyRows(
            f"rows of {layout.before + T} cells were given; the backbone has {capacity} positions"
        )
    highest = layout.highest_position
    if highest >= capacity:
        raise PositionOutOfCapacity(f"position {highest} was given; the backbone has 0 to {capacity - 1}")
    context.enter(embeddings)  # refuses what it would have to cut from its graph


def _check_provenance(provenance: str) -> None:
    if not provenance.strip():
        raise EmptyProvenance("the vectors have no provenance; say in a few words where they come from")


def _check_owner(nodes: Nodes, own: Nodes) -> None:
    if nodes is own:  # the same backbone, or else node by node
        return
    if len(nodes) != len(own):
        raise ForeignBackbone(
            f"the vectors were prepared for a backbone of {len(nodes)} parameters; this one has {len(own)}"
        )
    for node, other in zip(nodes, own, strict=True):
        if node is not other:
            raise ForeignBackbone(
                f"the vectors were prepared for another backbone: its {node.label} is not this one's, "
                "whatever the values are"
            )


def revisions_of(nodes: Iterable[Node]) -> list[int]:
    """Return the present revision of each node."""
    return [node.revision for node in nodes]


def _moved(nodes: Nodes, revisions: list[int]) -> Iterator[tuple[Node, int]]:
    """Yield the nodes that are not at their revisions any more, with those."""
    if revisions_of(nodes) != revisions:
        for node, revision in zip(nodes, revisions, strict=True):
            if node.revision != revision:
                yield node, revision


def _told(node: Node, revision: int) -> str:
    return f"{node.label} is at revision {node.revision}; the vectors were prepared at {revision}"


def _policy(context: Execution[Any]) -> str:
    return "under recording" if context.records else "without a graph"
