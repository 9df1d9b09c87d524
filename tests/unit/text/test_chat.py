from __future__ import annotations

import pytest

from zeroulp.model.errors import InvalidArgument, MalformedFile
from zeroulp.model.text import ChatMessage, ChatTemplate
from zeroulp.model.text.chat import MAX_OUTPUT_BYTES

USER = [ChatMessage("user", "Hi")]


def render(source: str, messages: list[ChatMessage] = USER, **tokens: str) -> str:
    return ChatTemplate(source, **tokens).render(messages, add_generation_prompt=True)


def test_messages_tokens_and_the_generation_prompt_reach_the_template() -> None:
    template = ChatTemplate(
        "{{ bos_token }}{% for m in messages %}[{{ m['role'] }}:{{ m.content }}]{% endfor %}{{ eos_token }}"
        "{% if add_generation_prompt %}>{% endif %}",
        bos_token="<s>",
        eos_token="</s>",
    )
    chat = [ChatMessage("system", "Be <b>kind</b>"), ChatMessage("user", "Hi")]
    assert template.render(chat, add_generation_prompt=True) == "<s>[system:Be <b>kind</b>][user:Hi]</s>>"
    assert template.render([], add_generation_prompt=False) == "<s></s>"


def test_blocks_leave_no_white_space_of_their_own() -> None:
    assert render("a\n    {% if true %}\nb\n    {% endif %}\nc") == "a\nb\nc"


def test_loops_can_be_left_and_json_is_not_escaped_for_html() -> None:
    assert render("{% for n in range(9) %}{% if n == 2 %}{% break %}{% endif %}{{ n }}{% endfor %}") == "01"
    assert render("{{ messages | tojson }}") == '[{"role": "user", "content": "Hi"}]'
    assert render("{{ {'b': '<é>', 'a': 1} | tojson(indent=1) }}") == '{\n "b": "<é>",\n "a": 1\n}'


def test_generation_marks_render_their_body() -> None:
    assert render("a{% generation %}{{ messages[0].content }}{% endgeneration %}z") == "aHiz"


def test_a_template_refuses_messages_in_its_own_words() -> None:
    with pytest.raises(InvalidArgument, match="roles must alternate") as caught:
        render("{{ raise_exception('roles must alternate') }}")
    assert caught.value.violations[0].field == "chat"


@pytest.mark.parametrize(
    "source",
    [
        "{{ messages.__class__.__mro__ }}",
        "{{ ''.__class__.__subclasses__() }}",
        "{{ render.__globals__ }}",
        "{{ raise_exception.__globals__['json'] }}",
        "{% include '/etc/passwd' %}",
        "{% import 'os' as os %}",
        "{{ messages.append(1) }}",
        "{{ messages[0].update(role='x') }}",
        "{{ open('/etc/passwd') }}",
        "{{ strftime_now('%Y') }}",
        "{{ 1 // 0 }}",
        "{{ 'a' + 1 }}",
        "{{ 'a' * 99999999 }}",
        "{{ 99999999 * 'a' }}",
        "{{ [0] * 99999999 }}",
        "{{ 9 ** 99999999 }}",
        "{% for n in range(99999999) %}x{% endfor %}",
        "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
    ],
)
def test_nothing_else_is_within_reach(source: str) -> None:
    with pytest.raises(InvalidArgument, match="chat template failed") as caught:
        render(source)
    assert caught.value.violations[0].field == "chat"


def test_private_attributes_print_as_nothing() -> None:
    assert "function" not in _refusal_or_text("{{ raise_exception.__code__ }}")


def test_the_output_is_bounded() -> None:
    half = "é" * (MAX_OUTPUT_BYTES // 4)
    body = "{% for m in messages %}{{ m.content }}{% endfor %}"
    assert render(body, [ChatMessage("user", half)] * 2) == half * 2
    with pytest.raises(InvalidArgument, match="longer than 1048576 bytes"):
        render(body, [ChatMessage("user", half)] * 2 + [ChatMessage("user", "x")])


def test_a_source_that_does_not_parse_is_a_malformed_model() -> None:
    with pytest.raises(MalformedFile, match=r"tokenizer\.chat_template, line 2"):
        ChatTemplate("\n{% if %}")


def _refusal_or_text(source: str) -> str:
    try:
        return render(source)
    except InvalidArgument as refused:
        return refused.message
