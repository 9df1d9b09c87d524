"""A short training run, as a test of the whole: forward, backward, update, and what is open meanwhile."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

from unit.model import models
from unit.model.conftest import Cutting
from zeroulp.model.cached_text import decode, prefill
from zeroulp.model.composition.language_model import LanguageModel
from zeroulp.model.composition.targets import Targets
from zeroulp.model.composition.text_batch import TextBatch
from zeroulp.model.compute_team import ComputeTeam
from zeroulp.model.context import NoGrad
from zeroulp.model.dropout import SeededDropout
from zeroulp.model.errors import ParametersChanged, UpdateNotFinite
from zeroulp.model.full_forward import full_forward
from zeroulp.model.library.catalogue import BUILT_IN
from zeroulp.model.recording import Recording
from zeroulp.model.session import Session
from zeroulp.model.text import DocumentBpe
from zeroulp.model.training import AdamW, train_step

PROVERBS = (
    "Measure twice, cut once.",
    "A stitch in time saves nine.",
    "Still waters run deep.",
    "Haste makes waste.",
)


@dataclass(frozen=True)
class Course:
    """A built-in model's sizes, rows of documents for it, and how long and fast it learns."""

    name: str
    batch: TextBatch
    steps: int
    rate: float

    def new_model(self) -> LanguageModel:
        found = BUILT_IN[self.name]
        return models.seeded(found.configuration, found.seed)

    def run(
        self, team: ComputeTeam, *, drop: float = 0.0, recompute: bool = False
    ) -> tuple[list[float], str]:
        """Return each step's loss and the digest of all parameters afterwards."""
        model = self.new_model()
        optimizer = AdamW(model.parameters.values(), self.rate)
        targets = Targets.next_tokens(self.batch)
        losses = []
        for step in range(self.steps):
            context = Recording(team, recompute=recompute)
            if drop:
                context = Recording.with_dropout(team, SeededDropout(drop, step), recompute=recompute)
            losses.append(train_step(model, context, self.batch, targets, optimizer))
        return losses, model.parameters.digest()


def packed(tokenizer: DocumentBpe, *rows: tuple[str, ...]) -> TextBatch:
    return TextBatch.packed([[tokenizer.encode_document(text) for text in row] for row in rows])


BOUNDARY = Course(
    "boundary-39", packed(DocumentBpe.bytes_only(), ("ab", "ba"), ("ab", "ab"), ("abba",)), 40, 0.02
)
GLASS = Course("glass-default", packed(DocumentBpe.glass_default(), PROVERBS[:2], PROVERBS[2:]), 8, 0.002)
COURSES = pytest.mark.parametrize("course", [BOUNDARY, GLASS], ids=["boundary", "glass"])


@COURSES
def test_the_loss_falls_and_every_bit_comes_again(teams: dict[int, ComputeTeam], course: Course) -> None:
    losses, digest = course.run(teams[1])
    assert losses[-1] < 0.5 * losses[0]
    assert course.run(teams[1]) == (losses, digest)
    assert course.run(teams[2]) == (losses, digest)
    assert course.run(teams[2], recompute=True) == (losses, digest)


@COURSES
def test_so_it_is_with_dropout(teams: dict[int, ComputeTeam], course: Course) -> None:
    losses, digest = course.run(teams[1], drop=0.1)
    assert losses[-1] < 0.75 * losses[0]
    assert course.run(teams[2], drop=0.1) == (losses, digest)
    assert course.run(teams[1], drop=0.1, recompute=True) == (losses, digest)


def test_dropout_changes_what_is_learned(teams: dict[int, ComputeTeam]) -> None:
    assert BOUNDARY.run(teams[1], drop=0.1)[1] != BOUNDARY.run(teams[1])[1]


def test_kernels_in_many_parts_change_nothing(teams: dict[int, ComputeTeam], cutting: Cutting) -> None:
    """The boundary's kernels are too small to be shared: here they are."""
    short = replace(BOUNDARY, steps=3)
    want = short.run(teams[1])
    with cutting.into(5):
        assert short.run(teams[2]) == want


def one_step(model: LanguageModel, team: ComputeTeam) -> None:
    optimizer = AdamW(model.parameters.values(), BOUNDARY.rate)
    train_step(model, Recording(team), BOUNDARY.batch, Targets.next_tokens(BOUNDARY.batch), optimizer)


def test_a_session_from_before_a_step_is_refused_and_a_new_one_is_not(
    teams: dict[int, ComputeTeam], context: NoGrad
) -> None:
    model, ids = BOUNDARY.new_model(), [0, 99, 100]
    pool = models.pool_for(model, 8, 8)
    old = Session(model.new_cache(pool))
    before = prefill(model, context, old, ids[:-1])
    rows = models.state(old.cache)
    one_step(model, teams[1])
    with pytest.raises(ParametersChanged, match="is at revision 1, the session was built at 0") as refused:
        decode(model, context, old, ids[-1])
    assert refused.value.reason == "PARAMETERS_CHANGED"
    assert models.state(old.cache) == rows
    fresh = Session(model.new_cache(pool))
    after = prefill(model, context, fresh, ids[:-1])
    assert after.tobytes() != before.tobytes()
    newest = decode(model, context, fresh, ids[-1])
    assert newest.tobytes() == full_forward(model, context, ids)[-1].tobytes()


def test_every_scalar_of_every_parameter_moves_in_a_step(teams: dict[int, ComputeTeam]) -> None:
    """Those of tokens that the text does not have move by the head."""
    model = BOUNDARY.new_model()
    before = {name: node.values() for name, node in model.parameters.items()}
    one_step(model, teams[1])
    for name, node in model.parameters.items():
        assert node.revision == 1
        assert (node.values() != before[name]).all(), name


def test_a_refused_step_moves_nothing_and_the_next_starts_afresh(teams: dict[int, ComputeTeam]) -> None:
    model, disturbed = BOUNDARY.new_model(), BOUNDARY.new_model()
    optimizer = AdamW(disturbed.parameters.values(), BOUNDARY.rate)
    digest = disturbed.parameters.digest()
    for node in disturbed.parameters.values():
        node.add_gradient(np.full(node.shape, np.nan))
    with pytest.raises(UpdateNotFinite):
        optimizer.step()
    assert disturbed.parameters.digest() == digest
    train_step(disturbed, Recording(teams[1]), BOUNDARY.batch, Targets.next_tokens(BOUNDARY.batch), optimizer)
    one_step(model, teams[1])
    assert disturbed.parameters.digest() == model.parameters.digest()
