from __future__ import annotations

import gc
import threading

import pytest

from unit.client.fake_arithmetic import V, greedy_after, row_after
from unit.client.fake_decoder import FakeDecoder
from zeroulp.client import (
    CallCancelled,
    ChatMessage,
    Client,
    FinishReason,
    LogitsScope,
    Prompt,
    ProtocolBroken,
    Sampling,
)
from zeroulp.v1 import decoder_pb2 as pb


def continued(text: str, count: int) -> list[int]:
    ids = list(text.encode())
    for _ in range(count):
        ids.append(greedy_after(ids))
    return ids


def test_tokens_arrive_with_their_rows(client: Client) -> None:
    generation = client.generate("hey", max_new_tokens=4, logits=LogitsScope.LAST, keep_session=True)
    assert generation.prompt_ids == tuple(b"hey")
    assert (generation.first_position, generation.seed) == (3, 99)
    tokens = list(generation)
    ids = continued("hey", 4)
    assert [token.token_id for token in tokens] == ids[3:]
    assert [token.position for token in tokens] == [3, 4, 5, 6]
    for token in tokens:
        assert token.logits is not None
        assert (token.logits.first_position, token.logits.rows) == (token.position - 1, 1)
        assert token.logits.vocabulary_size == V
        assert bytes(token.logits.row(0)) == row_after(ids[: token.position])
        assert token.log_probability is None
    finished = generation.finished
    assert (finished.reason, finished.position, finished.generated_tokens) == (FinishReason.LENGTH, 7, 4)
    assert (finished.stop, finished.work.token_forwards) == (None, 7)
    assert client.session(generation.session_id).state().token_ids == tuple(ids)
    assert list(generation) == []


def test_the_first_token_is_there_before_the_second_is_made(decoder: FakeDecoder, client: Client) -> None:
    decoder.stall_after = 1
    with client.generate("hey") as generation:
        assert next(generation).position == 3
        assert not decoder.ended.is_set()
    assert decoder.ended.wait(10)


def test_text_held_back_comes_last(decoder: FakeDecoder, client: Client) -> None:
    decoder.tail = "…tail"
    text = bytes(continued("hey", 2)[3:]).decode() + "…tail"
    assert list(client.generate("hey", max_new_tokens=2).pieces()) == [text[0], text[1], "…tail"]
    assert client.generate("hey", max_new_tokens=2).text() == text
    generation = client.generate("hey", max_new_tokens=2)
    next(generation)
    assert generation.text() == text, "that of tokens read before is included"


def test_pieces_without_text_are_not_given(decoder: FakeDecoder, client: Client) -> None:
    started = pb.GenerateResponse(started=pb.GenerationStarted(session_id="s"))
    silent = pb.GenerateResponse(token=pb.GeneratedToken(token_id=1, position=1))
    spoken = pb.GenerateResponse(token=pb.GeneratedToken(token_id=2, position=2, text="é"))
    decoder.events = [
        started,
        silent,
        spoken,
        pb.GenerateResponse(finished=pb.GenerationFinished(stop="x", reason=99)),  # type: ignore[arg-type]
    ]
    generation = client.generate("hey")
    assert list(generation.pieces()) == ["é"]
    assert (generation.finished.stop, generation.finished.reason) == ("x", FinishReason.UNKNOWN)


@pytest.mark.parametrize("way", ["cancel", "with", "pieces", "garbage", "client"])
def test_whatever_is_left_unread_is_cancelled(decoder: FakeDecoder, target: str, way: str) -> None:
    decoder.stall_after = 1
    client = Client(target)
    generation = client.generate("hey")
    match way:
        case "cancel":
            next(generation)
            generation.cancel()
            with pytest.raises(CallCancelled):
                list(generation)
        case "with":
            with generation:
                next(generation)
        case "pieces":
            pieces = generation.pieces()
            next(pieces)
            pieces.close()  # type: ignore[attr-defined]
        case "garbage":
            next(generation)
            del generation
            gc.collect()
        case "client":
            client.close()
    assert decoder.ended.wait(10)
    client.close()


def test_a_reader_that_waits_is_woken_by_another_threads_cancel(decoder: FakeDecoder, client: Client) -> None:
    decoder.stall_after = 1
    generation = client.generate("hey")
    next(generation)
    timer = threading.Timer(0.05, generation.cancel)
    timer.start()
    with pytest.raises(CallCancelled):
        next(generation)
    timer.join()


@pytest.mark.parametrize("keep", [True, False])
def test_the_session_is_kept_only_when_asked_for(decoder: FakeDecoder, client: Client, keep: bool) -> None:
    client.generate("hey", keep_session=keep).text()
    assert len(decoder.sessions) == keep


def test_options_reach_the_wire_and_zero_is_not_absence(decoder: FakeDecoder, client: Client) -> None:
    sampling = Sampling(temperature=0.0, top_k=0, top_p=0.5, seed=(1 << 64) - 1)
    client.generate(
        [1, 2],
        max_new_tokens=0,
        sampling=sampling,
        stop=["a", "b"],
        ignore_end_tokens=True,
        log_probabilities=True,
        top_entries=3,
    ).text()
    assert decoder.requests == [
        pb.GenerateRequest(
            token_ids=pb.TokenIds(ids=[1, 2]),
            max_new_tokens=0,
            sampling=pb.SamplingParameters(temperature=0.0, top_k=0, top_p=0.5, seed=(1 << 64) - 1),
            stop=["a", "b"],
            ignore_end_tokens=True,
            logits_scope=pb.LOGITS_SCOPE_NONE,
            log_probabilities=True,
            top_entries=3,
            close_session=True,
        )
    ]


def test_prompts_are_text_ids_or_a_conversation(decoder: FakeDecoder, client: Client) -> None:
    chat = [ChatMessage("user", "Hi")]
    prompts: list[Prompt] = ["Hi", [72, 105], (), chat]
    for prompt in prompts:
        client.generate(prompt, max_new_tokens=0).text()
    inputs = [request.WhichOneof("input") for request in decoder.requests]
    assert inputs == ["text", "token_ids", "token_ids", "chat"]
    assert decoder.requests[-1].chat == pb.Chat(  # type: ignore[attr-defined]
        messages=[pb.ChatMessage(role="user", content="Hi")], add_generation_prompt=True
    )


def test_what_no_message_can_hold_is_refused_here(decoder: FakeDecoder, client: Client) -> None:
    with pytest.raises(ValueError, match="-1"):
        client.generate([-1])
    with pytest.raises(TypeError, match="not both"):
        client.generate([1, ChatMessage("user", "Hi")])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="sequence of strings"):
        client.generate("x", stop="ab")
    with pytest.raises(TypeError, match="temperature"):
        client.generate("x", temperature=0.5)  # type: ignore[call-arg]
    assert decoder.requests == []


STARTED = pb.GenerateResponse(started=pb.GenerationStarted(session_id="s"))
FINISHED = pb.GenerateResponse(finished=pb.GenerationFinished())


@pytest.mark.parametrize(
    "events",
    [[], [FINISHED], [STARTED], [STARTED, STARTED, FINISHED], [STARTED, pb.GenerateResponse(), FINISHED]],
    ids=["nothing", "no start", "no end", "two starts", "an unknown event"],
)
def test_a_broken_contract_is_told(
    decoder: FakeDecoder, client: Client, events: list[pb.GenerateResponse]
) -> None:
    decoder.events = events
    with pytest.raises(ProtocolBroken):
        client.generate("x").text()
