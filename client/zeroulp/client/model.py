"""The model that a server serves."""

from __future__ import annotations

from dataclasses import dataclass, fields

from zeroulp.client.model_map import ModelMap, model_map_of
from zeroulp.client.parameter import ParameterInfo, parameter_of
from zeroulp.v1 import decoder_pb2


@dataclass(frozen=True, slots=True)
class ModelConfiguration:
    """The shape of the model."""

    vocabulary_size: int
    model_width: int
    heads: int
    kv_heads: int
    feed_forward_width: int
    layers: int
    max_positions: int
    rope_base: float
    rms_epsilon: float
    context_window: int | None
    """Positions that a query sees, itself included; None for all."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds that the server holds requests to."""

    max_positions: int
    max_sessions: int
    max_queued_calls: int
    max_message_bytes: int
    cache_bytes: int
    cache_block_positions: int
    max_top_entries: int
    max_stop_strings: int
    max_stop_bytes: int
    max_score_sequences: int
    generate_ahead_tokens: int
    max_waiting_per_session: int
    max_trace_patterns: int
    max_trace_pattern_bytes: int
    max_trace_bytes: int


@dataclass(frozen=True, slots=True)
class Model:
    """What GetModel tells."""

    name: str
    configuration: ModelConfiguration
    parameters: tuple[ParameterInfo, ...]
    """In initialisation order; the tied table stands once."""
    parameter_count: int
    parameter_bytes: int
    parameters_digest: str
    """SHA-256 over every parameter's name, shape and values."""
    arithmetic_version: int
    tokenizer_kind: str
    """One of the server's names; "none" when only token ids are taken."""
    end_token_ids: tuple[int, ...]
    chat_template: str
    """Empty when the model has none."""
    limits: Limits
    server_version: str
    model_map: ModelMap


def model_of(message: decoder_pb2.GetModelResponse) -> Model:
    """Return what an answer holds."""
    return Model(
        name=message.name,
        configuration=_configuration_of(message.configuration),
        parameters=tuple(parameter_of(parameter) for parameter in message.parameters),
        parameter_count=message.parameter_count,
        parameter_bytes=message.parameter_bytes,
        parameters_digest=message.parameters_digest,
        arithmetic_version=message.arithmetic_version,
        tokenizer_kind=message.tokenizer_kind,
        end_token_ids=tuple(message.end_token_ids),
        chat_template=message.chat_template,
        limits=Limits(**{limit.name: getattr(message.limits, limit.name) for limit in fields(Limits)}),
        server_version=message.server_version,
        model_map=model_map_of(message.model_map),
    )


def _configuration_of(message: decoder_pb2.ModelConfiguration) -> ModelConfiguration:
    return ModelConfiguration(
        vocabulary_size=message.vocabulary_size,
        model_width=message.model_width,
        heads=message.heads,
        kv_heads=message.kv_heads,
        feed_forward_width=message.feed_forward_width,
        layers=message.layers,
        max_positions=message.max_positions,
        rope_base=message.rope_base,
        rms_epsilon=message.rms_epsilon,
        context_window=message.context_window if message.HasField("context_window") else None,
    )
