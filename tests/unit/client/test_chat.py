from __future__ import annotations

import json

import pytest

from unit.client.fake_arithmetic import greedy_after
from unit.client.fake_decoder import FakeDecoder
from unit.client.test_cli import Capture, stdin_of
from zeroulp.client.cli import main
from zeroulp.v1 import decoder_pb2 as pb

pytestmark = pytest.mark.usefixtures("default_target")


def generated(decoder: FakeDecoder) -> list[pb.GenerateRequest]:
    return [request for request in decoder.requests if isinstance(request, pb.GenerateRequest)]


def answer_to(conversation: str, count: int) -> str:
    ids = list(conversation.encode())
    for _ in range(count):
        ids.append(greedy_after(ids))
    return bytes(ids[-count:]).decode()


def test_a_second_turn_appends_only_what_is_new(decoder: FakeDecoder, capsys: Capture) -> None:
    asked = ["chat", "--system", "Be kind", "--message", "Hi", "--message", "Bye", "--max-new-tokens", "4"]
    assert main(asked) == 0
    opening = "<system>Be kind\x03<user>Hi\x03<assistant>"
    first = answer_to(opening, 4)
    addition = "\x03<user>Bye\x03<assistant>"
    second = answer_to(opening + first + addition, 4)
    assert capsys.readouterr().out == f"{first}\n{second}\n"
    opened, continued = generated(decoder)
    assert bytes(opened.token_ids.ids).decode() == opening
    assert not opened.HasField("session_id")
    assert not opened.close_session
    assert (continued.session_id, bytes(continued.token_ids.ids).decode()) == ("session-1", addition)
    assert opened.sampling.temperature == 0.0
    assert opened.sampling.HasField("temperature")
    assert decoder.sessions == {}, "the session is closed at the end"


def test_a_conversation_that_was_rewritten_gets_a_new_session(decoder: FakeDecoder) -> None:
    decoder.short_memory = True
    assert main(["chat", "--message", "Hi", "--message", "Bye"]) == 0
    second = generated(decoder)[1]
    assert not second.HasField("session_id")
    assert bytes(second.token_ids.ids).decode() == "<user>Bye\x03<assistant>"
    assert decoder.sessions == {}, "the first session is closed too"


def test_a_session_that_was_lost_is_opened_again_with_the_same_text(
    decoder: FakeDecoder, capsys: Capture
) -> None:
    asked = ["chat", "--message", "Hi", "--message", "Bye", "--max-new-tokens", "2"]
    main(asked)
    expected = capsys.readouterr().out
    decoder.forget_at = "GetSession"
    assert main(asked) == 0
    assert capsys.readouterr().out == expected
    assert not generated(decoder)[-1].HasField("session_id")


def test_piped_messages_are_a_line_each_and_json_has_the_whole_answers(
    decoder: FakeDecoder, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    stdin_of("é one\r\n\n  \ntwo".encode(), monkeypatch)
    assert main(["chat", "--json", "--max-new-tokens", "1"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["event"] for line in lines] == ["started", "token", "finished", "message"] * 2
    answer = answer_to("<user>é one\x03<assistant>", 1)
    assert lines[3] == {"event": "message", "role": "assistant", "content": answer}
    assert lines[1]["log_probability_bits"] == "bff0000000000000"
    assert bytes(lines[4]["prompt_ids"]).decode() == "\x03<user>two\x03<assistant>"
