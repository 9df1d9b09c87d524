"""What the reference fixture shows, figure by figure, and every refusal by its type."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, replace

import numpy as np
import pytest

from zeroulp.model import errors
from zeroulp.model.boundary.cached_refusals import CACHED_REFUSALS
from zeroulp.model.boundary.composition import Composition
from zeroulp.model.boundary.fixture import Fixture
from zeroulp.model.boundary.input_refusals import INPUT_REFUSALS
from zeroulp.model.boundary.report import Report, report
from zeroulp.model.boundary.scene import Scene, refusals
from zeroulp.model.boundary.tied_gradient import TiedGradient
from zeroulp.model.compute_team import ComputeTeam
from zeroulp.model.recording import Recording

CASES = {**INPUT_REFUSALS, **CACHED_REFUSALS}

REFUSED: dict[str, tuple[type[Exception], str]] = {
    "wrong_width": (errors.WrongWidth, "vectors of width 3 were given; the backbone takes 4"),
    "malformed_layout": (
        errors.MalformedLayout,
        "vectors of shape [1, 2, 4] were given for a layout of [1, 3]",
    ),
    "too_many_rows": (errors.TooManyRows, "rows of 9 cells were given; the backbone has 8 positions"),
    "position_out_of_capacity": (
        errors.PositionOutOfCapacity,
        "position 8 was given; the backbone has 0 to 7",
    ),
    "empty_provenance": (
        errors.EmptyProvenance,
        "the vectors have no provenance; say in a few words where they come from",
    ),
    "tracked_input": (
        errors.TrackedInput,
        "a tensor of shape [1, 3, 4] was encoded under recording; execution without a graph takes none of "
        "it: detach it, or encode it without a graph",
    ),
    "relabelled_input": (
        errors.TrackedInput,
        "a tensor of shape [1, 3, 4] was encoded under recording; execution without a graph takes none of "
        "it: detach it, or encode it without a graph",
    ),
    "untracked_input": (
        errors.TrackedInput,
        "the vectors were encoded without a graph and are consumed under recording",
    ),
    "foreign_backbone": (
        errors.ForeignBackbone,
        "the vectors were prepared for another backbone: its parameter blocks.0.attention_norm.gain is not "
        "this one's, whatever the values are",
    ),
    "backbone_changed": (
        errors.BackboneChanged,
        "parameter blocks.1.ffn.up.weight is at revision 1; the vectors were prepared at 0",
    ),
    "producer_changed": (
        errors.ProducerChanged,
        "parameter token_embedding.weight is at revision 1; the vectors were prepared at 0",
    ),
    "input_changed": (
        errors.InputChanged,
        "a tensor of shape [1, 3, 4] is at revision 1; the vectors were prepared at 0",
    ),
    "component_mismatch": (
        errors.ComponentMismatch,
        "1 blocks were given; the configuration has 2",
    ),
    "not_tracked": (
        errors.NotTracked,
        "a tensor of shape [] was not recorded from anything that learns",
    ),
    "stale_revision": (
        errors.StaleRevision,
        "parameter token_embedding.weight is at revision 1; the forward read revision 0",
    ),
    "graph_released": (
        errors.GraphReleased,
        "this graph was released by an earlier backward; run the forward again, or keep the graph with "
        "keep_graph=True",
    ),
    "empty_prompt": (errors.EmptyPrompt, "ids has no tokens; at least one is needed"),
    "cache_filled": (
        errors.CacheFilled,
        "the cache holds 3 positions; a prefill needs an empty one, so open another session or decode",
    ),
    "cache_empty": (
        errors.CacheEmpty,
        "the cache holds no position; a decode needs a prefilled one, so prefill a prompt",
    ),
    "token_out_of_range": (
        errors.TokenOutOfRange,
        "ids[0] is 258; the vocabulary has the ids 0 to 257",
    ),
    "context_full": (errors.ContextFull, "1 tokens from position 8 end at 9; the model has 8 positions"),
    "parameters_changed": (
        errors.ParametersChanged,
        "parameter final_norm.gain is at revision 1, the session was built at 0; open a new session and "
        "prefill its tokens",
    ),
    "foreign_cache": (
        errors.ParametersChanged,
        "the cache belongs to another model; its rows are not this one's",
    ),
    "stale_ticket": (RuntimeError, "layer 0: a ticket targets another cache or position"),
    "counter_overflow": (OverflowError, "counter attention_score_values is past 18446744073709551615"),
}


@pytest.fixture(scope="module")
def reported(teams: dict[int, ComputeTeam]) -> Report:
    return report(teams[1])


def test_the_figures_of_the_specification(reported: Report) -> None:
    found = asdict(reported)
    assert found.pop("refusals") == {name: message for name, (_, message) in REFUSED.items()}
    sample = found.pop("gradient_sample")
    assert found == {
        "loss": 5.668398842431571,
        "loss_bits": "4016ac70bf03b620",
        "logit_shape": (1, 3, 258),
        "parameters": 1372,
        "named_tensors": 20,
        "lookup_and_head_same_node": True,
        "same_text_wrapper_logits": True,
        "max_partition_error": 0.0,
        "within_tolerance": True,
        "cached": {
            "prefix": 3,
            "cache_appends": 6,
            "attention_score_values": 12,
            "newest_logit_bit_mismatches": 0,
            "graph_free": True,
        },
    }
    assert (sample["row"], sample["feature"]) == (99, 0)
    assert f"{sample['lookup_path']:.11f}" == "0.02265892536"
    assert f"{sample['head_path']:.11f}" == "-0.00149137079"
    assert f"{sample['total']:.11f}" == "0.02116755456"
    assert reported.holds


def test_threads_change_no_figure(teams: dict[int, ComputeTeam], reported: Report) -> None:
    with teams[3].awake():
        assert report(teams[3]) == reported


@pytest.mark.parametrize("name", CASES)
def test_each_refusal_by_type_and_message_before_any_stage(teams: dict[int, ComputeTeam], name: str) -> None:
    scene = Scene(teams[1])
    refused = CASES[name](scene)
    kind, message = REFUSED[name]
    with pytest.raises(kind) as caught:
        refused()
    assert type(caught.value) is kind
    assert str(caught.value) == message
    assert scene.seen == []


def leaves(kind: type[Exception]) -> Iterator[type[Exception]]:
    children = kind.__subclasses__()
    yield from (leaf for child in children for leaf in leaves(child)) if children else (kind,)


def test_no_kind_of_refusal_is_left_out() -> None:
    kinds = {
        leaf
        for root in (errors.InputRefused, errors.GraphError, errors.CacheRefused)
        for leaf in leaves(root)
    }
    assert kinds <= {kind for kind, _ in REFUSED.values()}
    assert CASES.keys() == REFUSED.keys()


def test_what_is_accepted_or_refused_too_late_has_no_message(teams: dict[int, ComputeTeam]) -> None:
    def accepted(scene: Scene) -> Callable[[], object]:
        return lambda: None

    def too_late(scene: Scene) -> Callable[[], object]:
        def run() -> None:
            scene.model.backbone.forward(scene.watched_plain, scene.encoded(scene.plain))
            raise errors.WrongWidth("after all blocks")

        return run

    assert refusals(teams[1], {"accepted": accepted, "too_late": too_late}) == {
        "accepted": None,
        "too_late": None,
    }


def test_what_is_watched_is_seen(teams: dict[int, ComputeTeam]) -> None:
    """Otherwise an empty list would prove nothing."""
    for recorded in (False, True):
        scene = Scene(teams[1])
        context = scene.recording if recorded else scene.plain
        watched = scene.watched_recording if recorded else scene.watched_plain
        scene.model.backbone.forward(watched, scene.encoded(context))
        assert scene.seen[0] == "embedding"
        assert scene.seen[-1] == "final_norm"
        assert "blocks.1.down" in scene.seen


@pytest.mark.parametrize(
    "changed",
    [
        {"lookup_and_head_same_node": False},
        {"same_text_wrapper_logits": False},
        {"within_tolerance": False},
        {"refusals": {"wrong_width": None}},
    ],
)
def test_a_promise_that_is_broken_is_told(reported: Report, changed: dict[str, object]) -> None:
    assert not replace(reported, **changed).holds  # type: ignore[arg-type]


@pytest.mark.parametrize("changed", [{"newest_logit_bit_mismatches": 1}, {"graph_free": False}])
def test_a_cached_promise_that_is_broken_is_told(reported: Report, changed: dict[str, int]) -> None:
    cached = replace(reported.cached, **changed)  # type: ignore[arg-type]
    assert not replace(reported, cached=cached).holds


def test_the_two_paths_differ_and_a_row_that_is_not_in_the_input_learns_by_the_head(
    teams: dict[int, ComputeTeam],
) -> None:
    fixture = Fixture.new()
    gradient = TiedGradient.of(Recording(teams[1]), fixture)
    looked_up = np.flatnonzero(gradient.lookup.any(axis=1))
    assert looked_up.tolist() == fixture.ids
    assert gradient.head.any(axis=1).all()
    assert ((gradient.lookup + gradient.head) - gradient.total == 0.0).all()


def test_a_fixed_table_is_a_node_of_its_own(teams: dict[int, ComputeTeam]) -> None:
    fixture, recording = Fixture.new(), Recording(teams[1])
    fixed = Composition.of(recording, fixture, fixed_head=True)
    assert fixed.head.table is not fixed.lookup_table
    assert fixed.loss.raw.tobytes() == Composition.of(recording, fixture).loss.raw.tobytes()
