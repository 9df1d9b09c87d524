"""The checked vector boundary: what a backbone takes, from whom, and every way of being refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from unit.model import models
from zeroulp.model import errors, operations
from zeroulp.model.composition.backbone import DecoderBackbone
from zeroulp.model.composition.block import Block
from zeroulp.model.composition.encoder import TextEncoder
from zeroulp.model.composition.language_model import LanguageModel
from zeroulp.model.composition.layout import SequenceLayout
from zeroulp.model.composition.prepared import PreparedInput, prepare
from zeroulp.model.composition.text_batch import TextBatch
from zeroulp.model.compute_team import ComputeTeam
from zeroulp.model.context import Execution, NoGrad
from zeroulp.model.initialisation import initialised
from zeroulp.model.kernels.arrays import F64
from zeroulp.model.parameters import Parameter
from zeroulp.model.recording import Recording
from zeroulp.model.tensors import Tensor, backward

D = models.SMALL.model_width
PLAIN = SequenceLayout.plain(1, 3)


class LinearEncoder:
    """Real vectors ``[B, T, n]`` through a learned map ``[n, D]``: a source that is not text."""

    def __init__(self, weight: Tensor, vectors: F64) -> None:
        self.weight = weight
        self.vectors = vectors

    def encode(self, context: Execution[Any], backbone: DecoderBackbone) -> PreparedInput:
        """Return the mapped vectors, prepared."""
        B, T, n = self.vectors.shape
        (x,) = operations.linear(context, context.enter(Tensor(self.vectors.reshape(-1, n))), self.weight)
        embeddings = operations.to_batch(context, context.own(x), B, T)
        return prepare(
            context, backbone, embeddings, SequenceLayout.plain(B, T), "measured vectors", [self.weight]
        )


@pytest.fixture
def model() -> LanguageModel:
    return models.with_gains(models.SMALL, 5)


@pytest.fixture
def recording(teams: dict[int, ComputeTeam]) -> Recording:
    return Recording(teams[1])


def vectors(*shape: int) -> F64:
    return np.random.default_rng(3).uniform(-1.0, 1.0, shape)


def prepared_for(model: LanguageModel, context: Execution[Any], **changed: Any) -> PreparedInput:
    given: dict[str, Any] = {
        "embeddings": Tensor(vectors(1, 3, D)),
        "layout": PLAIN,
        "provenance": "a test",
        "producers": (),
    }
    return prepare(context, model.backbone, **(given | changed))


REFUSED_AT_PREPARATION: list[tuple[type[errors.InputRefused], str, dict[str, Any]]] = [
    (errors.WrongWidth, "vectors of width 3 were given; the backbone takes 12", {"embeddings": (1, 3, 3)}),
    (errors.MalformedLayout, r"\[2, 3, 12\] were given for a layout of \[1, 3\]", {"embeddings": (2, 3, D)}),
    (errors.MalformedLayout, r"\[1, 4, 12\] were given for a layout of \[1, 3\]", {"embeddings": (1, 4, D)}),
    (errors.MalformedLayout, r"\[3, 12\] were given for a layout", {"embeddings": (3, D)}),
    (
        errors.TooManyRows,
        "rows of 129 cells were given; the backbone has 128 positions",
        {"embeddings": (1, 129, D), "layout": SequenceLayout.plain(1, 129)},
    ),
    (
        errors.TooManyRows,
        "rows of 130 cells were given",
        {"embeddings": (1, 3, D), "layout": SequenceLayout.continued(127, 3)},
    ),
    (
        errors.PositionOutOfCapacity,
        "position 128 was given; the backbone has 0 to 127",
        {"layout": replace(PLAIN, positions=np.array([[0, 1, 128]]))},
    ),
    (errors.EmptyProvenance, "have no provenance; say in a few words", {"provenance": " "}),
]


@pytest.mark.parametrize(("error", "message", "changed"), REFUSED_AT_PREPARATION)
def test_what_does_not_fit_is_refused_at_preparation(
    model: LanguageModel,
    context: NoGrad,
    error: type[errors.InputRefused],
    message: str,
    changed: dict[str, Any],
) -> None:
    if "embeddings" in changed:
        changed = changed | {"embeddings": Tensor(vectors(*changed["embeddings"]))}
    with pytest.raises(error, match=message):
        prepared_for(model, context, **changed)


def _set(node: Parameter) -> None:
    node.set_value(node.values())


def _other_values(model: LanguageModel, prepared: PreparedInput, weight: Tensor) -> Any:
    return models.with_gains(models.SMALL, 5).backbone


def _backbone_moved(model: LanguageModel, prepared: PreparedInput, weight: Tensor) -> Any:
    _set(model.parameters["blocks.1.ffn.up.weight"])


def _norm_moved(model: LanguageModel, prepared: PreparedInput, weight: Tensor) -> Any:
    _set(model.parameters["final_norm.gain"])


def _producer_moved(model: LanguageModel, prepared: PreparedInput, weight: Tensor) -> Any:
    weight.set_value(weight.values)


def _vectors_moved(model: LanguageModel, prepared: PreparedInput, weight: Tensor) -> Any:
    prepared.embeddings.set_value(prepared.embeddings.values)


REFUSED_AT_CONSUMPTION: list[tuple[type[errors.InputRefused], str, Callable[..., Any]]] = [
    (errors.ForeignBackbone, "prepared for another backbone: its parameter blocks.0.att", _other_values),
    (errors.BackboneChanged, "blocks.1.ffn.up.weight is at revision 1; .* prepared at 0", _backbone_moved),
    (errors.BackboneChanged, "parameter final_norm.gain is at revision 1", _norm_moved),
    (errors.ProducerChanged, r"a tensor of shape \[2, 12\] is at revision 1", _producer_moved),
    (errors.InputChanged, r"a tensor of shape \[1, 3, 12\] is at revision 1", _vectors_moved),
]


@pytest.mark.parametrize("records", [False, True])
@pytest.mark.parametrize(("error", "message", "change"), REFUSED_AT_CONSUMPTION)
def test_what_changed_since_is_refused_before_any_block_runs(
    model: LanguageModel,
    context: NoGrad,
    recording: Recording,
    records: bool,
    error: type[errors.InputRefused],
    message: str,
    change: Callable[..., Any],
) -> None:
    execution: Execution[Any] = recording if records else context
    weight = Tensor(vectors(2, D))
    prepared = LinearEncoder(weight, vectors(1, 3, 2)).encode(execution, model.backbone)
    backbone = change(model, prepared, weight) or model.backbone
    seen: list[str] = []
    watched = execution.observed_by(lambda layer, stage, values: seen.append(stage))
    with pytest.raises(error, match=message):
        backbone.forward(watched, prepared)
    assert not seen
    fresh = LinearEncoder(weight, vectors(1, 3, 2)).encode(execution, backbone)
    assert backbone.forward(watched, fresh).shape == (1, 3, D)
    assert seen[-1] == "final_norm"


def test_an_updated_table_makes_prepared_text_stale(model: LanguageModel, context: NoGrad) -> None:
    prepared = TextEncoder(model.table, TextBatch.of([[1, 2, 3]])).encode(context, model.backbone)
    _set(model.table)
    with pytest.raises(errors.ProducerChanged, match=r"parameter token_embedding.weight is at revision 1"):
        model.backbone.forward(context, prepared)


def test_tracked_vectors_are_refused_without_a_graph(
    model: LanguageModel, context: NoGrad, recording: Recording
) -> None:
    tracked = TextEncoder(model.table, TextBatch.of([[1, 2, 3]])).encode(recording, model.backbone)
    refusals: list[tuple[Callable[[], object], str]] = [
        (lambda: prepared_for(model, context, embeddings=tracked.embeddings), "encoded under recording"),
        (lambda: model.backbone.forward(context, tracked), "encoded under recording"),
        # calling it something else does not cut its graph
        (lambda: model.backbone.forward(context, replace(tracked, context=context)), "under recording"),
    ]
    for refused, message in refusals:
        with pytest.raises(errors.TrackedInput, match=message):
            refused()
    detached = prepared_for(model, context, embeddings=tracked.embeddings.detach())
    plain = TextEncoder(model.table, TextBatch.of([[1, 2, 3]])).encode(context, model.backbone)
    got, want = model.backbone.forward(context, detached), model.backbone.forward(context, plain)
    assert got.values.tobytes() == want.values.tobytes()


def test_vectors_from_without_a_graph_are_refused_under_recording(
    model: LanguageModel, context: NoGrad, recording: Recording
) -> None:
    """Their gradients would be lost without a word."""
    plain = TextEncoder(model.table, TextBatch.of([[1, 2, 3]])).encode(context, model.backbone)
    with pytest.raises(errors.TrackedInput, match="encoded without a graph and are consumed under recording"):
        model.backbone.forward(recording, plain)


def test_a_backbone_of_components_alone_serves_a_source_that_is_not_text(
    context: NoGrad, recording: Recording
) -> None:
    c = models.SMALL
    values = {name: Parameter(name, value) for name, value in initialised(c, 9) if "token" not in name}
    blocks = [Block(c, values, layer) for layer in range(c.layers)]
    backbone = DecoderBackbone(c, blocks, values["final_norm.gain"])
    weight = Tensor(vectors(2, D), learns=True)
    encoder = LinearEncoder(weight, vectors(2, 5, 2))
    hidden = backbone.forward(recording, encoder.encode(recording, backbone))
    flat = operations.to_rows(recording, hidden, SequenceLayout.plain(2, 5).cells)
    loss = operations.total(recording, operations.swiglu(recording, flat, flat))
    backward(loss)
    assert weight.gradient is not None
    assert np.count_nonzero(weight.gradient) == weight.gradient.size
    assert all(node.gradient is not None for node in backbone.nodes)
    free = LinearEncoder(weight.detach(), encoder.vectors)
    same = backbone.forward(context, free.encode(context, backbone))
    assert same.values.tobytes() == hidden.values.tobytes()


MISMATCHES: list[tuple[str, dict[str, Any], str]] = [
    ("heads", {"heads": 3}, "block 0 was made for heads 2, not 3"),
    ("window", {"context_window": 4}, "block 0 was made for context_window None, not 4"),
    ("positions", {"max_positions": 64}, "block 0 was made for max_positions 128, not 64"),
    ("base", {"rope_base": np.nextafter(1e4, 2e4)}, "block 0 was made for rope_base 10000.0"),
    ("epsilon", {"rms_epsilon": np.nextafter(1e-6, 1.0)}, "block 0 was made for rms_epsilon 1e-06"),
    ("layers", {"layers": 3}, "2 blocks were given; the configuration has 3"),
]


@pytest.mark.parametrize(("changed", "message"), [mismatch[1:] for mismatch in MISMATCHES])
def test_components_of_other_constants_are_refused(
    model: LanguageModel, changed: dict[str, Any], message: str
) -> None:
    with pytest.raises(errors.ComponentMismatch, match=message):
        DecoderBackbone(
            replace(models.SMALL, **changed), model.backbone.blocks, model.parameters["final_norm.gain"]
        )


def test_components_in_another_order_or_shape_are_refused(model: LanguageModel) -> None:
    first, second = model.backbone.blocks
    norm = model.parameters["final_norm.gain"]
    with pytest.raises(errors.ComponentMismatch, match="block 0 was made as layer 1"):
        DecoderBackbone(models.SMALL, [second, first], norm)
    with pytest.raises(errors.ComponentMismatch, match=r"final_norm.gain has the shape \[13\]"):
        DecoderBackbone(models.SMALL, [first, second], Parameter("final_norm.gain", np.ones(13)))


def test_an_extension_takes_only_its_own_cache(model: LanguageModel, context: NoGrad) -> None:
    other = models.with_gains(models.SMALL, 5)
    with pytest.raises(errors.ParametersChanged, match="belongs to another model"):
        models.append(model, context, other.new_cache(models.pool_for(model, 3)), [1, 2, 3])
