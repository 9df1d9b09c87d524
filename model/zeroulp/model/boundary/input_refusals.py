"""Vectors that a backbone does not take, and graphs that nothing goes back through."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Final

import numpy as np

from zeroulp.model.boundary.composition import Composition
from zeroulp.model.boundary.fixture import Fixture
from zeroulp.model.boundary.scene import Arrangement, Scene, renew
from zeroulp.model.composition.backbone import DecoderBackbone
from zeroulp.model.composition.layout import SequenceLayout
from zeroulp.model.composition.prepared import PreparedInput, prepare
from zeroulp.model.tensors import Tensor, backward

Call = Callable[[], object]


def _vectors(scene: Scene, layout: SequenceLayout, *shape: int, provenance: str = "ones") -> Call:
    """Return the preparation of vectors of ones."""
    ones = Tensor(np.ones(shape))
    return partial(prepare, scene.watched_plain, scene.model.backbone, ones, layout, provenance, [])


def _wrong_width(scene: Scene) -> Call:
    return _vectors(scene, SequenceLayout.plain(1, 1), 1, 1, scene.configuration.model_width - 1)


def _malformed_layout(scene: Scene) -> Call:
    return _vectors(scene, SequenceLayout.plain(1, 3), 1, 2, scene.configuration.model_width)


def _too_many_rows(scene: Scene) -> Call:
    rows = scene.configuration.max_positions + 1
    return _vectors(scene, SequenceLayout.plain(1, rows), 1, rows, scene.configuration.model_width)


def _position_out_of_capacity(scene: Scene) -> Call:
    layout = replace(SequenceLayout.plain(1, 1), positions=np.array([[scene.configuration.max_positions]]))
    return _vectors(scene, layout, 1, 1, scene.configuration.model_width)


def _empty_provenance(scene: Scene) -> Call:
    width = scene.configuration.model_width
    return _vectors(scene, SequenceLayout.plain(1, 1), 1, 1, width, provenance="")


def _tracked_input(scene: Scene) -> Call:
    return partial(scene.model.backbone.forward, scene.watched_plain, scene.encoded(scene.recording))


def _relabelled_input(scene: Scene) -> Call:
    relabelled = replace(scene.encoded(scene.recording), context=scene.plain)
    return partial(scene.model.backbone.forward, scene.watched_plain, relabelled)


def _untracked_input(scene: Scene) -> Call:
    return partial(scene.model.backbone.forward, scene.watched_recording, scene.encoded(scene.plain))


def _foreign_backbone(scene: Scene) -> Call:
    other = Fixture.new().model.backbone
    return partial(other.forward, scene.watched_plain, scene.encoded(scene.plain))


def _backbone_changed(scene: Scene) -> Call:
    return _changed(scene, lambda prepared: renew(scene.model.parameters["blocks.1.ffn.up.weight"]))


def _producer_changed(scene: Scene) -> Call:
    return _changed(scene, lambda prepared: renew(scene.model.table))


def _input_changed(scene: Scene) -> Call:
    return _changed(scene, lambda prepared: prepared.embeddings.set_value(prepared.embeddings.values))


def _changed(scene: Scene, change: Callable[[PreparedInput], None]) -> Call:
    prepared = scene.encoded(scene.plain)
    change(prepared)
    return partial(scene.model.backbone.forward, scene.watched_plain, prepared)


def _component_mismatch(scene: Scene) -> Call:
    backbone = scene.model.backbone
    return partial(DecoderBackbone, scene.configuration, backbone.blocks[:-1], backbone.final_norm)


def _not_tracked(scene: Scene) -> Call:
    return partial(backward, Composition.of(scene.plain, scene.fixture).loss)


def _stale_revision(scene: Scene) -> Call:
    loss = Composition.of(scene.recording, scene.fixture).loss
    renew(scene.model.table)
    return partial(backward, loss)


def _graph_released(scene: Scene) -> Call:
    loss = Composition.of(scene.recording, scene.fixture).loss
    backward(loss)
    return partial(backward, loss)


INPUT_REFUSALS: Final[Mapping[str, Arrangement]] = MappingProxyType(
    {
        "wrong_width": _wrong_width,
        "malformed_layout": _malformed_layout,
        "too_many_rows": _too_many_rows,
        "position_out_of_capacity": _position_out_of_capacity,
        "empty_provenance": _empty_provenance,
        "tracked_input": _tracked_input,
        "relabelled_input": _relabelled_input,
        "untracked_input": _untracked_input,
        "foreign_backbone": _foreign_backbone,
        "backbone_changed": _backbone_changed,
        "producer_changed": _producer_changed,
        "input_changed": _input_changed,
        "component_mismatch": _component_mismatch,
        "not_tracked": _not_tracked,
        "stale_revision": _stale_revision,
        "graph_released": _graph_released,
    }
)
