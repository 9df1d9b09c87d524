"""The checked boundary: vectors of any source on their way into a backbone."""

from __future__ import annotations

from collections.abc import Sequence
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

Bindings = tuple[tuple[Node, int], ...]


class InputEncoder(Protocol):
    """A source of vectors. What can be wrong with the source is the encoder's own to check."""

    def encode(self, context: Execution[Any], backbone: DecoderBackbone) -> PreparedInput:
        """Return the source's vectors, prepared for ``backbone``."""


@dataclass(frozen=True, slots=True, eq=False)
class PreparedInput:
    """Embeddings ``[B, T, D]`` with everything that they may be used with.

    ``provenance`` is a description for people and authorises nothing. The bindings name the exact nodes and
    revisions: of the backbone, of what produced the vectors, and of the vectors. Made by `prepare`.
    """

    embeddings: Tensor
    context: Execution[Any]
    layout: SequenceLayout
    provenance: str
    backbone: Bindings
    producers: Bindings
    revision: int

    def check(self, backbone: DecoderBackbone, context: Execution[Any]) -> None:
        """Raise the ``InputRefused`` that says why ``backbone`` may not consume this under ``context``."""
        _check_embeddings(self.embeddings, context, self.layout, backbone)
        if not self.provenance.strip():
            raise EmptyProvenance("the vectors have no provenance; say in a few words where they come from")
        if self.context.records != context.records:
            raise TrackedInput(
                f"the vectors were encoded {_policy(self.context)} and are consumed {_policy(context)}"
            )
        if len(self.backbone) != len(backbone.nodes):
            raise ForeignBackbone(
                f"the vectors were prepared for a backbone of {len(self.backbone)} parameters; "
                f"this one has {len(backbone.nodes)}"
            )
        for (node, revision), own in zip(self.backbone, backbone.nodes, strict=True):
            if node is not own:
                raise ForeignBackbone(
                    f"the vectors were prepared for another backbone: its {node.label} is not this one's, "
                    "whatever the values are"
                )
            if node.revision != revision:
                raise BackboneChanged(_moved(node, revision))
        for node, revision in self.producers:
            if node.revision != revision:
                raise ProducerChanged(_moved(node, revision))
        if self.embeddings.revision != self.revision:
            raise InputChanged(_moved(self.embeddings, self.revision))


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
    prepared = PreparedInput(
        embeddings,
        context,
        layout,
        provenance,
        tuple([(node, node.revision) for node in backbone.nodes]),
        tuple([(node, node.revision) for node in producers]),
        embeddings.revision,
    )
    prepared.check(backbone, context)
    return prepared


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
    highest = int(layout.positions.max())
    if highest >= capacity:
        raise PositionOutOfCapacity(f"position {highest} was given; the backbone has 0 to {capacity - 1}")
    context.enter(embeddings)  # refuses what it would have to cut from its graph


def _moved(node: Node, revision: int) -> str:
    return f"{node.label} is at revision {node.revision}; the vectors were prepared at {revision}"


def _policy(context: Execution[Any]) -> str:
    return "under recording" if context.records else "without a graph"
