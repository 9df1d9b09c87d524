"""The rules of a graph: what goes back, what is refused with nothing changed, two paths into one table."""

from __future__ import annotations

import numpy as np
import pytest

from unit.model import models
from unit.model.texts import back
from zeroulp.model import operations
from zeroulp.model.composition.encoder import TextEncoder
from zeroulp.model.composition.head import TextOutputHead
from zeroulp.model.composition.language_model import LanguageModel
from zeroulp.model.composition.prepared import prepare
from zeroulp.model.composition.targets import Targets
from zeroulp.model.composition.text_batch import TextBatch
from zeroulp.model.compute_team import ComputeTeam
from zeroulp.model.context import NoGrad
from zeroulp.model.errors import GraphReleased, NotTracked, StaleRevision, TokenOutOfRange
from zeroulp.model.kernels.arrays import F64
from zeroulp.model.loading import load
from zeroulp.model.parameters import Parameter
from zeroulp.model.recording import Recording
from zeroulp.model.tensors import Node, Tensor, backward

BATCH = TextBatch.of([[1, 2, 3, 4, 5], [6, 7]])
TARGETS = Targets.next_tokens(BATCH)


@pytest.fixture
def model() -> LanguageModel:
    return models.with_gains(models.SMALL, 7)


@pytest.fixture
def recording(teams: dict[int, ComputeTeam]) -> Recording:
    return Recording(teams[1])


def gradients(model: LanguageModel) -> dict[str, F64 | None]:
    return {name: node.gradient for name, node in model.parameters.items()}


def found(node: Node) -> F64:
    assert node.gradient is not None
    return node.gradient


@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize("name", ["token_embedding.weight", "blocks.1.ffn.gate.weight", "final_norm.gain"])
def test_a_moved_parameter_is_refused(
    teams: dict[int, ComputeTeam], model: LanguageModel, name: str, recompute: bool
) -> None:
    loss = model.loss(Recording(teams[1], recompute=recompute), BATCH, TARGETS)
    node = model.parameters[name]
    node.set_value(node.values())
    with pytest.raises(
        StaleRevision, match=f"parameter {name} is at revision 1; the forward read revision 0"
    ):
        backward(loss)
    assert set(gradients(model).values()) == {None}


@pytest.mark.parametrize("moved", [0, 1, 2])
def test_a_moved_tensor_is_refused(recording: Recording, moved: int) -> None:
    leaf = Tensor([[1.0, 2.0]], learns=True)
    between = operations.softmax(recording, leaf)
    tensors = [leaf, between, operations.total(recording, between)]
    tensors[moved].set_value(tensors[moved].values)
    with pytest.raises(StaleRevision):
        backward(tensors[2])
    assert leaf.gradient is None


def test_a_released_graph_is_refused(model: LanguageModel, recording: Recording) -> None:
    loss = model.loss(recording, BATCH, TARGETS)
    backward(loss)
    once = gradients(model)
    with pytest.raises(GraphReleased, match=r"run the forward again, or keep the graph with keep_graph=True"):
        backward(loss)
    after = gradients(model)
    assert all(after[name] is once[name] for name in once)


def test_what_goes_on_from_a_released_graph_is_refused(recording: Recording) -> None:
    x, y = Tensor([[1.0, 2.0]], learns=True), Tensor([[3.0, 4.0]], learns=True)
    shared = operations.softmax(recording, x)
    one, two = (operations.total(recording, operations.swiglu(recording, shared, z)) for z in (y, y))
    backward(one)
    x.clear_gradient()
    y.clear_gradient()
    with pytest.raises(GraphReleased):
        backward(two)
    assert x.gradient is y.gradient is None


def test_what_nothing_learns_from_is_refused(
    teams: dict[int, ComputeTeam], model: LanguageModel, recording: Recording
) -> None:
    free = model.loss(NoGrad(teams[1]), BATCH, TARGETS)
    unlearned = operations.total(recording, Tensor([[1.0, 2.0]]))
    for result in (free, unlearned, model.loss(recording, BATCH, TARGETS).detach()):
        with pytest.raises(NotTracked, match="was not recorded from anything that learns"):
            backward(result)
    with pytest.raises(NotTracked, match=r"starts from one value, not from a tensor of shape \[2, 5, 29\]"):
        backward(model.batch_logits(recording, BATCH))
    assert set(gradients(model).values()) == {None}


@pytest.mark.parametrize("recompute", [False, True])
def test_a_kept_graph_goes_back_again_and_gradients_add_up(
    teams: dict[int, ComputeTeam], model: LanguageModel, recompute: bool
) -> None:
    recording = Recording(teams[1], recompute=recompute)
    once = back(model, model.loss(recording, BATCH, TARGETS))
    loss = model.loss(recording, BATCH, TARGETS)
    backward(loss, keep_graph=True)
    backward(loss)
    for name, node in model.parameters.items():
        one = np.frombuffer(once[name]).reshape(node.shape)
        assert found(node).tobytes() == (one + one).tobytes()


def test_detaching_cuts_and_leaves_the_rest(recording: Recording) -> None:
    x, y = Tensor([[1.0, 2.0]], learns=True), Tensor([[3.0, 4.0]], learns=True)
    cut = operations.softmax(recording, x).detach()
    assert not cut.tracked
    backward(operations.total(recording, operations.swiglu(recording, cut, y)))
    assert x.gradient is None
    assert y.gradient is not None


def test_a_learning_copy_collects_what_its_original_does_not(recording: Recording) -> None:
    x = Tensor([[1.0, 2.0]], learns=True)
    copy = x.detach(learns=True)
    backward(operations.total(recording, operations.residual(recording, copy, copy)))
    assert x.gradient is None
    assert found(copy).tolist() == [[2.0, 2.0]]


def test_a_tensor_keeps_its_shape_and_lets_nobody_write(recording: Recording) -> None:
    given = np.ones((2, 3))
    x = Tensor(given)
    given[:] = 7.0
    assert x.values.tolist() == [[1.0] * 3] * 2
    with pytest.raises(ValueError, match="read-only"):
        x.values[0, 0] = 2.0
    with pytest.raises(ValueError, match=r"shape \[3\] was given; \[2, 3\] is allowed"):
        x.set_value([1.0, 2.0, 3.0])
    assert x.revision == 0
    x.set_value(given)
    assert (x.revision, x.values[0, 0]) == (1, 7.0)


def test_the_embedding_example_of_the_specification(teams: dict[int, ComputeTeam]) -> None:
    recording, ids = Recording(teams[1]), [0, 2, 0]
    table = Tensor([[1, 0], [0, 1], [1, 1]], learns=True)
    rows = operations.embedding(recording, table, ids)
    assert rows.values.tolist() == [[1, 0], [1, 1], [1, 0]]
    backward(operations.total(recording, rows))
    assert found(table).tolist() == [[2, 2], [0, 0], [1, 1]]
    hidden = Tensor([[2.0, 1.0]])
    turned = operations.transpose(recording, table)  # [D, V]
    assert operations.linear(recording, hidden, turned)[0].values.tolist() == [[2, 1, 3]]
    free = NoGrad(teams[1])
    assert operations.embedding(free, table.detach(), ids).tolist() == rows.values.tolist()
    for outside in (3, -1):
        with pytest.raises(TokenOutOfRange, match="the table has 0 to 2"):
            operations.embedding(recording, table, [0, outside])


Paths = dict[str, F64]


def paths(model: LanguageModel, context: Recording, batch: TextBatch, targets: Targets) -> Paths:
    """Return the table's gradient in all, by the lookup alone, and by the head alone."""

    def through(head: Node, detached: bool) -> F64:
        prepared = TextEncoder(model.table, batch).encode(context, model.backbone)
        if detached:
            x = prepared.embeddings.detach()
            prepared = prepare(context, model.backbone, x, batch.layout, "text, detached", [model.table])
        hidden = model.backbone.forward(context, prepared)
        rows = operations.to_rows(context, hidden, batch.layout.cells)
        ids, valid = targets.rows(batch, model.configuration.vocabulary_size)
        backward(operations.mean_nll(context, TextOutputHead(head).logits(context, rows), ids, valid))
        gradient = found(model.table)
        model.table.clear_gradient()
        return gradient

    fixed: Parameter = model.table.detach()
    return {
        "total": through(model.table, False),
        "lookup": through(fixed, False),
        "head": through(model.table, True),
    }


@pytest.mark.parametrize("recompute", [False, True])
def test_two_paths_into_one_table(teams: dict[int, ComputeTeam], recompute: bool) -> None:
    model = load("boundary-39").model
    batch = TextBatch.of([[0, 99, 100]])
    targets = Targets(np.array([[99, 100, 1]]), np.ones((1, 3), bool))
    recording = Recording(teams[1], recompute=recompute)
    loss = model.loss(recording, batch, targets)
    assert np.float64(loss.item()).view(np.uint64) == 0x4016AC70BF03B620
    assert back(model, loss).keys() == model.parameters.keys()
    found = paths(model, recording, batch, targets)
    at = {path: f"{table[99, 0]:.11f}" for path, table in found.items()}
    assert at == {"lookup": "0.02265892536", "head": "-0.00149137079", "total": "0.02116755456"}
    assert found["total"].size == 1032
    assert np.abs(found["lookup"] + found["head"] - found["total"]).max() == 0.0
    looked_up = np.flatnonzero(found["lookup"].any(axis=1)).tolist()
    assert looked_up == [0, 99, 100]  # the others are reached through the head alone
    assert found["head"].any(axis=1).all()
    assert found["total"][5].tobytes() == found["head"][5].tobytes()
