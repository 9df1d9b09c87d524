"""The JSON lines of a generation: started, token after token, finished."""

from __future__ import annotations

from dataclasses import asdict

from zeroulp.client.cli.output import emit, f64_fields
from zeroulp.client.finished import Finished
from zeroulp.client.generation import Generation
from zeroulp.client.token import Token


def emit_started(generation: Generation) -> None:
    """Write the line of the start; ``prompt_ids`` are the ids that this call's input became."""
    emit(
        event="started",
        session_id=generation.session_id,
        prompt_ids=generation.prompt_ids,
        position=generation.first_position,
        seed=generation.seed,
    )


def emit_token(token: Token) -> None:
    """Write the line of one token."""
    emit(
        event="token",
        position=token.position,
        token_id=token.token_id,
        text=token.text,
        **f64_fields("log_probability", token.log_probability),
        top_entries=[
            {"token_id": entry.token_id, **f64_fields("log_probability", entry.log_probability)}
            for entry in token.top_entries
        ],
    )


def emit_finished(finished: Finished) -> None:
    """Write the line of the end; ``text`` is what had been held back."""
    emit(
        event="finished",
        reason=finished.reason.name,
        text=finished.text,
        position=finished.position,
        generated_tokens=finished.generated_tokens,
        stop=finished.stop,
        work=asdict(finished.work),
        total_work=asdict(finished.total_work),
    )
