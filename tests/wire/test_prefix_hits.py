"""A prompt that begins like an open session: less work, and the same bits as on a server without one."""

from __future__ import annotations

import pytest

from wire.calls import Stream, close, decode, generate, ids, prefill, rows, session
from wire.models import PROMPT, SHARED, seeded
from wire.serving import Serving, serving
from zeroulp.model.kernels.cache_rows import BLOCK
from zeroulp.v1 import decoder_pb2 as pb

pytestmark = pytest.mark.usefixtures("nothing_is_left")
LENGTHS = (BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK - 1, 2 * BLOCK, 2 * BLOCK + 1, 100)


def reused_of(length: int) -> int:
    """Whole blocks before a prompt's last token."""
    return (length - 1) // BLOCK * BLOCK


def less(whole: pb.Work, reused: int) -> pb.Work:
    """Return the work without what ``reused`` tokens at the start of a prompt would have cost."""
    layers, heads = SHARED.layers, SHARED.heads
    return pb.Work(
        token_forwards=whole.token_forwards - reused,
        prefill_tokens=whole.prefill_tokens - reused,
        decode_tokens=whole.decode_tokens,
        cache_appends=whole.cache_appends - reused * layers,
        qkv_projection_rows=whole.qkv_projection_rows - 3 * reused * layers,
        attention_score_values=whole.attention_score_values - reused * (reused + 1) // 2 * heads * layers,
        reused_tokens=reused,
    )


SCOPES = [pb.LOGITS_SCOPE_NONE, pb.LOGITS_SCOPE_LAST, pb.LOGITS_SCOPE_ALL]


@pytest.mark.parametrize("top_entries", [0, 3])
@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("length", LENGTHS)
def test_a_hit_is_the_prompt_without_its_work(
    here: Serving, alone: Serving, length: int, scope: pb.LogitsScope.ValueType, top_entries: int
) -> None:
    prefill(here.stub, PROMPT)
    request = pb.PrefillRequest(token_ids=ids(*PROMPT[:length]), logits_scope=scope, top_entries=top_entries)
    hit, twin = here.stub.Prefill(request), alone.stub.Prefill(request)
    assert twin.work.reused_tokens == 0
    assert hit.work == hit.total_work == less(twin.work, reused_of(length))
    assert (hit.position, list(hit.token_ids)) == (length, PROMPT[:length])
    assert (hit.HasField("logits"), hit.logits) == (twin.HasField("logits"), twin.logits)
    assert list(hit.top_entries) == list(twin.top_entries)
    assert len(hit.top_entries) == bool(top_entries) * (length if scope == pb.LOGITS_SCOPE_ALL else 1)
    assert here.cached(hit.session_id) == alone.cached(twin.session_id)
    more = [
        served.stub.Decode(
            pb.DecodeRequest(
                session_id=opened.session_id, token_ids=ids(1, 2), logits_scope=pb.LOGITS_SCOPE_ALL
            )
        )
        for served, opened in ((here, hit), (alone, twin))
    ]
    assert more[0].logits == more[1].logits
    assert more[0].work == more[1].work
    assert more[0].total_work == less(more[1].total_work, reused_of(length))


def test_rows_of_a_hit_are_the_full_forwards(here: Serving) -> None:
    prefill(here.stub, PROMPT)
    hit = prefill(here.stub, PROMPT[:100], pb.LOGITS_SCOPE_ALL)
    assert hit.logits.first_position == 0
    assert rows(hit.logits) == here.full_rows(PROMPT[:100])


@pytest.mark.parametrize("same", [0, BLOCK - 1, BLOCK, 2 * BLOCK - 1, 2 * BLOCK])
def test_only_what_is_the_same_is_reused(here: Serving, same: int) -> None:
    prefill(here.stub, PROMPT[:80])
    other = [*PROMPT[:same], *((token + 1) % 61 for token in PROMPT[same:80])]
    hit = prefill(here.stub, other, pb.LOGITS_SCOPE_ALL)
    assert hit.work.reused_tokens == same // BLOCK * BLOCK
    assert rows(hit.logits) == here.full_rows(other)


def test_what_was_decoded_and_generated_is_reused_too(here: Serving) -> None:
    opened = prefill(here.stub, PROMPT[:20])
    decode(here.stub, opened.session_id, PROMPT[20:30])
    generate(
        here.stub,
        pb.GenerateRequest(
            session_id=opened.session_id, max_new_tokens=40, sampling=pb.SamplingParameters(seed=3)
        ),
    )
    tokens = list(session(here.stub, opened.session_id).token_ids)
    hit = prefill(here.stub, tokens, pb.LOGITS_SCOPE_ALL)
    assert hit.work.reused_tokens == 64
    assert rows(hit.logits) == here.full_rows(tokens)


def facts(stream: Stream) -> list[bytes]:
    return [token.SerializeToString(deterministic=True) for token in stream.tokens]


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("length", LENGTHS)
def test_a_generation_from_a_hit(here: Serving, alone: Serving, length: int, temperature: float) -> None:
    prefill(here.stub, PROMPT)
    request = pb.GenerateRequest(
        token_ids=ids(*PROMPT[:length]),
        max_new_tokens=8,
        sampling=pb.SamplingParameters(
            temperature=temperature, seed=9, repetition_penalty=1.3, frequency_penalty=0.2
        ),
        logits_scope=pb.LOGITS_SCOPE_LAST,
        log_probabilities=True,
        top_entries=2,
    )
    hit, twin = generate(here.stub, request), generate(alone.stub, request)
    assert facts(hit) == facts(twin)
    assert hit.finished.work == hit.finished.total_work == less(twin.finished.work, reused_of(length))
    resume = pb.GenerateRequest(session_id=hit.started.session_id, resume_position=length)
    resumed = generate(here.stub, resume)
    assert facts(resumed) == facts(hit)
    assert resumed.finished.work == pb.Work()


def test_blocks_outlive_the_session_that_filled_them(here: Serving) -> None:
    capacity = here.hall.pool.capacity
    first = prefill(here.stub, PROMPT[:70]).session_id
    second = prefill(here.stub, PROMPT[:70]).session_id
    assert here.footprint == (2, capacity - 4)
    close(here.stub, first)
    assert here.footprint == (1, capacity - 3)
    third = prefill(here.stub, PROMPT[:70], pb.LOGITS_SCOPE_ALL)
    assert third.work.reused_tokens == 64
    close(here.stub, second)
    assert rows(third.logits) == here.full_rows(PROMPT[:70])
    assert rows(decode(here.stub, third.session_id, [7]).logits) == here.full_rows([*PROMPT[:70], 7])[-1:]
    close(here.stub, third.session_id)
    assert here.footprint == (0, capacity)
    assert prefill(here.stub, PROMPT[:70]).work.reused_tokens == 0


def test_many_hits_at_once(here: Serving) -> None:
    prefill(here.stub, PROMPT)
    full = here.full_rows(PROMPT)
    with here.paused():
        calls = [
            here.stub.Prefill.future(
                pb.PrefillRequest(token_ids=ids(*PROMPT[:length]), logits_scope=pb.LOGITS_SCOPE_ALL)
            )
            for length in range(30, 150, 7)
        ]
        here.wait_for_calls(len(calls) + 1)
    for call, length in zip(calls, range(30, 150, 7), strict=True):
        assert rows(call.result().logits) == full[:length]
        assert call.result().work.reused_tokens == reused_of(length)


def test_a_session_of_changed_parameters_gives_nothing() -> None:
    with serving(seeded("own", SHARED, 5)) as own:
        old = prefill(own.stub, PROMPT[:70], pb.LOGITS_SCOPE_ALL)
        own.wait_until_idle()
        gain = own.loaded.model.parameters["final_norm.gain"]
        gain.set_value(gain.values() * 1.5)
        new = prefill(own.stub, PROMPT[:70], pb.LOGITS_SCOPE_ALL)
        assert new.work.reused_tokens == 0
        assert rows(new.logits) == own.full_rows(PROMPT[:70])
        assert rows(new.logits)[0] != rows(old.logits)[0]
        assert prefill(own.stub, PROMPT[:70]).work.reused_tokens == 64
        own.check_blocks()
