"""A model's chat template: messages to the text that the model was trained to continue.

A template is a program that came with a model file, and its input came from a client, so it runs in
a sandbox: no files, no imports, no private attributes, nothing mutable, a bounded output. It sees no
clock either: the same messages always give the same text.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, NoReturn

from jinja2 import TemplateError, TemplateSyntaxError, nodes
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension
from jinja2.ext import loopcontrols as LoopControls  # noqa: N812 - a class under a function's name
from jinja2.parser import Parser
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment

from zeroulp.model.errors import InvalidArgument, MalformedFile

MAX_OUTPUT_BYTES: Final = 1 << 20
"""Largest rendered chat: far more tokens than any context here, and small enough to hold."""


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """One turn of a conversation; ``role`` is a name that the template knows."""

    role: str
    content: str


class ChatTemplate:
    """A compiled template in the dialect of Hugging Face's ``apply_chat_template``.

    ``bos_token`` and ``eos_token`` are the texts of the model's begin and end tokens. Raises
    ``MalformedFile`` for a source that does not parse. Immutable, so threads may share it.
    """

    def __init__(self, source: str, *, bos_token: str = "", eos_token: str = "") -> None:
        environment = _Sandbox(trim_blocks=True, lstrip_blocks=True, extensions=[LoopControls, _Generation])
        environment.filters["tojson"] = _to_json
        environment.globals["raise_exception"] = _raise_exception
        self._tokens = {"bos_token": bos_token, "eos_token": eos_token}
        try:
            self._template = environment.from_string(source)
        except TemplateSyntaxError as error:
            raise MalformedFile(f"tokenizer.chat_template, line {error.lineno}: {error.message}") from error

    def render(self, messages: Sequence[ChatMessage], add_generation_prompt: bool) -> str:
        """Return the text of ``messages``, with the opening of the model's turn if asked for.

        Raises ``InvalidArgument`` when the template refuses the messages or fails on them, and for an
        output of more than ``MAX_OUTPUT_BYTES``.
        """
        chunks = []
        size = 0
        try:
            for chunk in self._template.generate(
                messages=[asdict(message) for message in messages],
                add_generation_prompt=add_generation_prompt,
                **self._tokens,
            ):
                chunks.append(chunk)
                size += len(chunk.encode("utf-8", "surrogatepass"))
                if size > MAX_OUTPUT_BYTES:
                    _raise_exception(f"the chat is longer than {MAX_OUTPUT_BYTES} bytes")
        except Exception as error:  # a template is a program: it can raise anything
            raise InvalidArgument(f"the model's chat template failed: {error}", field="chat") from error
        return "".join(chunks)


class _Sandbox(ImmutableSandboxedEnvironment):
    """Also stops a multiplication or a power from filling the memory before any output is counted."""

    intercepted_binops = frozenset({"*", "**"})

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        if operator == "**":
            raise SecurityError("powers are not allowed")
        for sequence, count in ((left, right), (right, left)):
            repeats = hasattr(sequence, "__len__") and isinstance(count, int)
            if repeats and len(sequence) * count > MAX_OUTPUT_BYTES:
                raise SecurityError(f"a repetition is longer than {MAX_OUTPUT_BYTES}")
        return super().call_binop(context, operator, left, right)


class _Generation(Extension):
    """Marks the model's own words for training masks; here the body is rendered as it stands."""

    tags = {"generation"}  # noqa: RUF012 - jinja2 declares it so

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _to_json(
    value: object,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    # Jinja's own filter escapes for HTML, which a model has never seen.
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )


def _raise_exception(message: str) -> NoReturn:
    raise TemplateError(message)
