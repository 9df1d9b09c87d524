"""The options of a generation, and the request they become."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

from zeroulp.client.logits import LogitsScope
from zeroulp.client.prompt import Prompt, put_prompt
from zeroulp.client.sampling import Sampling, sampling_message_of
from zeroulp.v1 import decoder_pb2


class GenerateOptions(TypedDict, total=False):
    """Keyword arguments of ``Client.generate`` and ``Session.generate``, none of them required."""

    max_new_tokens: int
    """Absent: until an end token, a stop string or the last position. Zero commits the prompt only."""
    sampling: Sampling
    """Absent: plain sampling at temperature 1 with a seed that the server draws."""
    stop: Sequence[str]
    """The text ends before the first of these; no part of it is given out."""
    ignore_end_tokens: bool
    """Go on past the model's end tokens."""
    logits: LogitsScope
    """LAST gives each token the row that it was drawn from; absent means NONE."""
    top_entries: int
    """Number of most likely entries beside each token."""
    log_probabilities: bool
    """Give each token its log-probability under the unmodified logits."""


def generate_request(
    prompt: Prompt | None,
    *,
    session_id: str | None = None,
    close_session: bool = False,
    max_new_tokens: int | None = None,
    sampling: Sampling | None = None,
    stop: Sequence[str] = (),
    ignore_end_tokens: bool = False,
    logits: LogitsScope = LogitsScope.NONE,
    top_entries: int = 0,
    log_probabilities: bool = False,
) -> decoder_pb2.GenerateRequest:
    """Return the request; raises ValueError or TypeError for what a message cannot hold."""
    if isinstance(stop, str):
        # A string is a sequence of strings too, and would stop at each of its characters.
        raise TypeError("stop is a sequence of strings")
    request = decoder_pb2.GenerateRequest(
        session_id=session_id,
        max_new_tokens=max_new_tokens,
        stop=stop,
        ignore_end_tokens=ignore_end_tokens,
        logits_scope=logits.value,
        top_entries=top_entries,
        log_probabilities=log_probabilities,
        close_session=close_session,
    )
    if sampling is not None:
        request.sampling.CopyFrom(sampling_message_of(sampling))
    if prompt is not None:
        put_prompt(request, prompt)
    return request
