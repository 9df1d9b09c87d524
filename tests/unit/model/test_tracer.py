"""The tracer keeps what an observer sees, at the chosen places, whichever way the pass comes."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from unit.model import models
from zeroulp.model.cache.transaction import Transaction
from zeroulp.model.composition.language_model import LanguageModel
from zeroulp.model.composition.text_batch import TextBatch
from zeroulp.model.composition.text_segment import text_segment
from zeroulp.model.compute_team import ComputeTeam
from zeroulp.model.configuration import Configuration
from zeroulp.model.context import NoGrad
from zeroulp.model.errors import InvalidArgument
from zeroulp.model.full_forward import full_forward
from zeroulp.model.kernels.arrays import F64
from zeroulp.model.recording import Recording
from zeroulp.model.tracing.snapshot import DISPLAY_LIMIT, Snapshot
from zeroulp.model.tracing.stages import selected, stages_of
from zeroulp.model.tracing.tracer import Tracer

MODEL = models.with_gains(models.SMALL, 7)
STAGES = stages_of(models.SMALL)
IDS = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8]
T = len(IDS)


def seen(model: LanguageModel, context: NoGrad, ids: list[int]) -> list[tuple[int | None, str, F64]]:
    """Everything that a full forward shows, in order: the slow version of a tracer."""
    shown: list[tuple[int | None, str, F64]] = []
    watched = context.observed_by(lambda layer, stage, values: shown.append((layer, stage, values.copy())))
    full_forward(model, watched, ids)
    return shown


def bits(snapshots: tuple[Snapshot, ...]) -> dict[str, bytes]:
    return {snapshot.name: snapshot.values.tobytes() for snapshot in snapshots}


def test_the_stages_are_those_that_an_observer_sees(context: NoGrad) -> None:
    shown = [(layer, stage, values.shape[1]) for layer, stage, values in seen(MODEL, context, IDS)]
    assert shown == [(stage.layer, stage.stage, stage.features) for stage in STAGES]
    names = [stage.name for stage in STAGES]
    assert (names[0], names[1], names[-2:]) == ("embed", "blocks.0.attention_norm", ["final_norm", "logits"])
    assert len(set(names)) == len(names) == 3 + 15 * models.SMALL.layers


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25)
@given(data=st.data())
def test_chosen_stages_and_positions_of_a_pass_in_any_steps(
    teams: dict[int, ComputeTeam], data: st.DataObject
) -> None:
    context = NoGrad(teams[1])
    stages = [stage for stage in STAGES if data.draw(st.booleans())]
    positions = sorted(data.draw(st.sets(st.integers(0, T - 1), min_size=1)))
    want = {(layer, stage): values[positions].tobytes() for layer, stage, values in seen(MODEL, context, IDS)}
    tracer = Tracer(stages, positions)
    watched = context.observed_by(tracer)
    cuts = sorted({0, T, *data.draw(st.sets(st.integers(1, T - 1)))})
    with Transaction(MODEL.new_cache(models.pool_for(MODEL, T)), T) as transaction:
        for start, end in pairwise(cuts):
            tracer.first = start
            segment = text_segment(transaction, IDS[start:end])
            MODEL.logits(watched, MODEL.forward(watched, [segment]))
    got = tracer.snapshots()
    assert [snapshot.name for snapshot in got] == [stage.name for stage in stages]
    assert [s.values.tobytes() for s in got] == [want[stage.layer, stage.stage] for stage in stages]
    assert all(s.shape == (len(positions), stage.features) for s, stage in zip(got, stages, strict=True))
    assert all(s.positions.tolist() == positions for s in got)


def test_a_cached_step_embeds_its_own_position_only(context: NoGrad) -> None:
    full, cached = Tracer(STAGES, range(T)), Tracer(STAGES, [T - 1], first=T - 1)
    full_forward(MODEL, context.observed_by(full), IDS)
    cache = MODEL.new_cache(models.pool_for(MODEL, T))
    models.append(MODEL, context, cache, IDS[:-1])
    models.append(MODEL, context.observed_by(cached), cache, IDS[-1:])
    embed = cached.snapshots()[0]
    assert (embed.name, embed.shape) == ("embed", (1, models.SMALL.model_width))
    assert bits(cached.snapshots()) == {s.name: s.values[-1].tobytes() for s in full.snapshots()}


def test_a_batch_has_an_axis_of_its_own(context: NoGrad) -> None:
    sequences = [IDS, IDS[::-1], [7] * T]
    tracer = Tracer(STAGES, [2, 5], batch=3)
    MODEL.batch_logits(context.observed_by(tracer), TextBatch.of(sequences))
    for row, ids in enumerate(sequences):
        alone = Tracer(STAGES, [2, 5])
        full_forward(MODEL, context.observed_by(alone), ids)
        got = tracer.snapshots()
        assert {s.name: s.values[row].tobytes() for s in got} == bits(alone.snapshots())
        assert got[0].shape == (3, 2, models.SMALL.model_width)


def test_a_recorded_pass_is_traced_in_the_same_bits(context: NoGrad) -> None:
    plain, recorded = Tracer(STAGES, range(T)), Tracer(STAGES, range(T))
    full_forward(MODEL, context.observed_by(plain), IDS)
    MODEL.batch_logits(Recording(context.team).observed_by(recorded), TextBatch.of([IDS]))
    assert bits(recorded.snapshots()) == bits(plain.snapshots())


def test_what_is_not_chosen_is_not_touched() -> None:
    class Untouchable:
        def __getattribute__(self, name: str) -> Any:
            raise AssertionError(name)

    tracer = Tracer(selected(STAGES, ["embed"], field="names"), [0])
    tracer(0, "query", Untouchable())  # type: ignore[arg-type]
    tracer(None, "embedding", np.ones((1, models.SMALL.model_width)))
    assert [snapshot.name for snapshot in tracer.snapshots()] == ["embed"]


@pytest.mark.parametrize(
    ("patterns", "names"),
    [
        (["embed"], ["embed"]),
        (["logits", "embed"], ["embed", "logits"]),
        (
            ["blocks.1.*_rope", "blocks.1.query*"],
            [f"blocks.1.{s}" for s in ("query", "query_rope", "key_rope")],
        ),
        (["*.[gu][ap]*"], [f"blocks.{n}.{s}" for n in (0, 1) for s in ("gate", "up")]),
        (["*norm"], ["blocks.0.attention_norm", "blocks.0.ffn_norm", "blocks.1.attention_norm"]),
        ([], [stage.name for stage in STAGES]),
    ],
)
def test_patterns_choose_in_the_order_of_the_pass(patterns: list[str], names: list[str]) -> None:
    assert [stage.name for stage in selected(STAGES, patterns, field="names")][: len(names)] == names


def test_a_pattern_that_matches_nothing_is_refused() -> None:
    with pytest.raises(InvalidArgument) as refused:
        selected(STAGES, ["embed", "Logits"], field="names")
    assert refused.value.violations[0].field == "names[1]"
    assert "'Logits'" in refused.value.message
    assert "blocks.0.attention_norm" in refused.value.message


def snapshot(*shape: int) -> Snapshot:
    values = np.arange(np.prod(shape), dtype=np.float64).reshape(shape)
    return Snapshot("x", np.arange(shape[-2]), values)


def test_a_sample_is_the_corners_of_what_is_too_large_to_show() -> None:
    assert snapshot(1, DISPLAY_LIMIT).sample is None
    assert snapshot(8, DISPLAY_LIMIT // 8).sample is None
    for given_, want in [
        (snapshot(1, 100), [[0, 1, 2, 97, 98, 99]]),
        (snapshot(30, 10), [[0, 1, 2, 7, 8, 9], [290, 291, 292, 297, 298, 299]]),
        (snapshot(30, 4), [[0, 1, 2, 3], [116, 117, 118, 119]]),
        (snapshot(2, 5, 10), [[0, 1, 2, 7, 8, 9], [90, 91, 92, 97, 98, 99]]),
    ]:
        assert given_.sample is not None
        assert given_.sample.tolist() == want


def test_the_stages_of_other_shapes(context: NoGrad) -> None:
    wide = Configuration(
        vocabulary_size=5,
        model_width=8,
        heads=4,
        kv_heads=2,
        feed_forward_width=3,
        layers=3,
        max_positions=4,
        rope_base=500.0,
        rms_epsilon=1e-5,
    )
    shown = seen(models.seeded(wide, 1), context, [1])
    want = [(stage.layer, stage.stage, stage.features) for stage in stages_of(wide)]
    assert [(layer, stage, values.shape[1]) for layer, stage, values in shown] == want
