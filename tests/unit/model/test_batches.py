"""A document's bits do not depend on what it is packed or padded with, windows included.

Gradients of parameters sum over the rows of a batch in ascending order. So where only one document's
targets count, they are that document's alone: the others add zeros. The sum over several documents is
defined by the order of their rows, which packing and padding share; it is not the sum of their gradients
alone, whose roundings differ.
"""

from __future__ import annotations

from itertools import accumulate, pairwise

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from unit.model import models
from unit.model.texts import Documents, configurations, documents, drawn_targets, trained
from zeroulp.model.composition.language_model import LanguageModel
from zeroulp.model.composition.layout import SequenceLayout
from zeroulp.model.composition.targets import Targets
from zeroulp.model.composition.text_batch import TextBatch
from zeroulp.model.compute_team import ComputeTeam
from zeroulp.model.configuration import Configuration
from zeroulp.model.context import NoGrad
from zeroulp.model.kernels.arrays import F64
from zeroulp.model.recording import Recording

SHARED = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
seeds = st.integers(0, 2**32)


def borders(texts: Documents) -> list[tuple[int, int]]:
    return list(pairwise([0, *accumulate(len(text) for text in texts)]))


def alone(model: LanguageModel, context: NoGrad, text: list[int]) -> F64:
    z: F64 = model.batch_logits(context, TextBatch.of([text])).values[0]
    return z


def widened(batch: TextBatch, more: int, padding: int) -> TextBatch:
    """The same rows with ``more`` padded cells, which hold any id."""
    lengths = batch.layout.active.tolist()
    T = batch.ids.shape[1]
    ids = np.full((len(lengths), T + more), padding)
    for b, length in enumerate(lengths):
        ids[b, :length] = batch.ids[b, :length]
    return TextBatch(ids, SequenceLayout.padded(lengths, T + more))


@SHARED
@given(c=configurations(), seed=seeds, data=st.data())
def test_packed_documents_are_those_alone(
    teams: dict[int, ComputeTeam], c: Configuration, seed: int, data: st.DataObject
) -> None:
    model, free = models.with_gains(c, seed), NoGrad(teams[1])
    rows: list[Documents] = [data.draw(documents(c, most=4)) for _ in range(data.draw(st.integers(1, 3)))]
    batch = TextBatch.packed(rows)
    for context in (free, Recording(teams[1]), Recording(teams[1], recompute=True)):
        z = model.batch_logits(context, batch).values
        for row, texts in zip(z, rows, strict=True):
            for text, (first, last) in zip(texts, borders(texts), strict=True):
                assert row[first:last].tobytes() == alone(model, free, text).tobytes()
            assert row[last:].tobytes() == bytes(row[last:].nbytes)  # +0.0


@SHARED
@given(c=configurations(), seed=seeds, data=st.data())
def test_padded_rows_are_those_alone(
    teams: dict[int, ComputeTeam], c: Configuration, seed: int, data: st.DataObject
) -> None:
    model, free = models.with_gains(c, seed), NoGrad(teams[1])
    texts = data.draw(documents(c, most=4))
    padding = data.draw(st.integers(0, c.vocabulary_size - 1))
    batch = widened(TextBatch.of(texts), data.draw(st.integers(0, 3)), padding)
    for context in (free, Recording(teams[1])):
        z = model.batch_logits(context, batch).values
        for row, text in zip(z, texts, strict=True):
            assert row[: len(text)].tobytes() == alone(model, free, text).tobytes()
            assert row[len(text) :].tobytes() == bytes(row[len(text) :].nbytes)  # +0.0


@SHARED
@given(c=configurations(), seed=seeds, data=st.data())
def test_padding_changes_no_loss_and_no_gradient(
    teams: dict[int, ComputeTeam], c: Configuration, seed: int, data: st.DataObject
) -> None:
    model, recording = models.with_gains(c, seed), Recording(teams[1])
    batch = TextBatch.of(data.draw(documents(c, most=3)))
    targets = drawn_targets(batch, np.random.default_rng(seed), c.vocabulary_size)
    want = trained(model, recording, batch, targets)
    more = data.draw(st.integers(1, 4))
    padding = data.draw(st.integers(0, c.vocabulary_size - 1))
    cells = ((0, 0), (0, more))
    wider = Targets(np.pad(targets.ids, cells, constant_values=-7), np.pad(targets.valid, cells))
    assert trained(model, recording, widened(batch, more, padding), wider) == want


@SHARED
@given(c=configurations(), seed=seeds, data=st.data())
def test_packing_is_padding_for_losses_and_gradients(
    teams: dict[int, ComputeTeam], c: Configuration, seed: int, data: st.DataObject
) -> None:
    model, recording = models.with_gains(c, seed), Recording(teams[1])
    texts = data.draw(documents(c, most=4))
    padded, packed = TextBatch.of(texts), TextBatch.packed([texts])
    targets = drawn_targets(padded, np.random.default_rng(seed), c.vocabulary_size)
    cells = padded.layout.cells
    same = Targets(targets.ids.reshape(-1)[cells][None], targets.valid.reshape(-1)[cells][None])
    want = trained(model, recording, padded, targets)
    assert trained(model, recording, packed, same) == want
    assert trained(model, Recording(teams[1], recompute=True), packed, same) == want


@SHARED
@given(c=configurations(), seed=seeds, data=st.data())
def test_gradients_of_one_packed_document_are_its_own(
    teams: dict[int, ComputeTeam], c: Configuration, seed: int, data: st.DataObject
) -> None:
    model, recording = models.with_gains(c, seed), Recording(teams[1])
    texts = data.draw(documents(c, most=4))
    packed = TextBatch.packed([texts])
    index = data.draw(st.integers(0, len(texts) - 1))
    one = TextBatch.of([texts[index]])
    targets = drawn_targets(one, np.random.default_rng(seed), c.vocabulary_size)
    cells = slice(*borders(texts)[index])
    ids, valid = np.full(packed.ids.shape, -1), np.zeros(packed.ids.shape, bool)
    ids[:, cells], valid[:, cells] = targets.ids, targets.valid
    want = trained(model, recording, one, targets)
    assert trained(model, recording, packed, Targets(ids, valid)) == want


def test_successors_end_with_their_document() -> None:
    batch = TextBatch.packed([[[1, 2, 3], [4], [5, 6]], [[7, 8]]])
    targets = Targets.next_tokens(batch)
    assert targets.valid.tolist() == [
        [True, True, False, False, True, False],
        [True, False, False, False, False, False],
    ]
    assert targets.ids[targets.valid].tolist() == [2, 3, 6, 8]
    assert batch.layout.positions[0].tolist() == [0, 1, 2, 0, 0, 1]
    assert batch.layout.starts[0].tolist() == [0, 0, 0, 3, 4, 4]


def test_long_documents_over_several_blocks(teams: dict[int, ComputeTeam], rng: np.random.Generator) -> None:
    texts = [rng.integers(0, 37, length).tolist() for length in (31, 1, 33, 40, 22)]
    packed = TextBatch.packed([texts])
    for window in (None, 25):
        c = Configuration(37, 24, 6, 2, 19, 1, 128, 10000.0, 1e-6, window)
        model, free = models.with_gains(c, 5), NoGrad(teams[1])
        z = model.batch_logits(free, packed).values[0]
        for text, (first, last) in zip(texts, borders(texts), strict=True):
            assert z[first:last].tobytes() == alone(model, free, text).tobytes()
