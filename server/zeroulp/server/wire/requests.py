"""From request messages to the engine's plain calls."""

from __future__ import annotations

import secrets
from typing import Literal, TypeAlias, get_args

from zeroulp.model.errors import InvalidArgument
from zeroulp.model.sampling import SamplingParameters
from zeroulp.server.engine.calls import GenerateCall, Scope, ScoreSequence, Wanted
from zeroulp.server.engine.trace_calls import TraceCall
from zeroulp.server.wire.texts import Texts
from zeroulp.v1 import decoder_pb2 as pb

_SCOPES = {
    pb.LOGITS_SCOPE_NONE: Scope.NONE,
    pb.LOGITS_SCOPE_LAST: Scope.LAST,
    pb.LOGITS_SCOPE_ALL: Scope.ALL,
}
_SamplingField: TypeAlias = Literal[
    "temperature",
    "top_k",
    "top_p",
    "min_p",
    "repetition_penalty",
    "presence_penalty",
    "frequency_penalty",
]
_SAMPLING_FIELDS: tuple[_SamplingField, ...] = get_args(_SamplingField)


def wanted(
    request: pb.PrefillRequest | pb.DecodeRequest | pb.ScoreRequest | pb.GenerateRequest, default: Scope
) -> Wanted:
    """Return what the answer shall carry; raises ``InvalidArgument`` for a scope that is not defined."""
    if request.logits_scope == pb.LOGITS_SCOPE_UNSPECIFIED:
        return Wanted(default, request.top_entries)
    if request.logits_scope not in _SCOPES:
        raise InvalidArgument(f"logits_scope {request.logits_scope} is not defined", field="logits_scope")
    return Wanted(_SCOPES[request.logits_scope], request.top_entries)


def score_sequence(texts: Texts, sequence: pb.ScoreSequence) -> ScoreSequence:
    """Return a sequence as it was sent, text as ids."""
    return ScoreSequence(
        ids=texts.document(sequence),
        targets=tuple(sequence.targets.ids) if sequence.HasField("targets") else None,
        mask=tuple(sequence.target_mask),
        document_lengths=tuple(sequence.document_lengths),
    )


def generate_call(texts: Texts, request: pb.GenerateRequest) -> GenerateCall:
    """Return the call; what is not set explicitly has its documented default, zero is never unset."""
    on_session = request.HasField("session_id")
    sampling = request.sampling
    explicit = {name: getattr(sampling, name) for name in _SAMPLING_FIELDS if sampling.HasField(name)}
    return GenerateCall(
        session_id=request.session_id if on_session else None,
        ids=texts.continuation(request) if on_session else texts.prompt(request),
        max_new_tokens=request.max_new_tokens if request.HasField("max_new_tokens") else None,
        sampling=SamplingParameters(**explicit),
        seed=sampling.seed if sampling.HasField("seed") else secrets.randbits(64),
        stop=tuple(request.stop),
        ignore_end_tokens=request.ignore_end_tokens,
        wanted=wanted(request, Scope.NONE),
        log_probabilities=request.log_probabilities,
        close_session=request.close_session,
    )


def trace_call(texts: Texts, request: pb.TraceRequest) -> TraceCall:
    """Return the call: over a session the input goes on from it, otherwise it starts a sequence."""
    cache = request.WhichOneof("cache")
    return TraceCall(
        ids=texts.continuation(request) if cache == "session_id" else texts.prompt(request),
        prefix_tokens=request.prefix_tokens if cache == "prefix_tokens" else None,
        session_id=request.session_id if cache == "session_id" else None,
        names=tuple(request.names),
        positions=tuple(request.positions),
    )


def check_resume(request: pb.GenerateRequest) -> None:
    """Raise ``InvalidArgument`` if a request to resume carries more than session and position."""
    allowed = {"session_id", "resume_position"}
    extra = sorted(field.name for field, _ in request.ListFields() if field.name not in allowed)
    if extra:
        raise InvalidArgument(
            "resume_position goes with session_id only, since the generation keeps its parameters; "
            f"{extra[0]} is set too",
            field=extra[0],
        )
    if not request.HasField("session_id"):
        raise InvalidArgument("resume_position needs session_id", field="session_id")
