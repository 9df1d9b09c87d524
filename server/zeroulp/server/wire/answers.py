"""From the engine's plain outcomes to answer messages."""

from __future__ import annotations

from zeroulp.model.kernels.arrays import F64
from zeroulp.model.work import Work
from zeroulp.server.engine.calls import (
    Appended,
    Finished,
    FinishReason,
    Generated,
    GenerationEvent,
    LogitRows,
    SequenceScore,
    SessionState,
    Started,
    TopAt,
)
from zeroulp.server.engine.trace_calls import TensorShape, TraceFinished, TracePart, TraceStarted
from zeroulp.server.jobs.audit import Audit
from zeroulp.v1 import decoder_pb2 as pb

_REASONS = {
    FinishReason.LENGTH: pb.FINISH_REASON_LENGTH,
    FinishReason.END_TOKEN: pb.FINISH_REASON_END_TOKEN,
    FinishReason.STOP_STRING: pb.FINISH_REASON_STOP_STRING,
    FinishReason.CONTEXT_FULL: pb.FINISH_REASON_CONTEXT_FULL,
}


def work(counts: Work) -> pb.Work:
    """Return the counters."""
    return pb.Work(
        token_forwards=counts.token_forwards,
        prefill_tokens=counts.prefill_tokens,
        decode_tokens=counts.decode_tokens,
        cache_appends=counts.cache_appends,
        qkv_projection_rows=counts.qkv_projection_rows,
        attention_score_values=counts.attention_score_values,
        reused_tokens=counts.reused_tokens,
    )


def logits(first_position: int, values: F64) -> pb.Logits:
    """Return rows ``[rows, V]`` as little-endian f64."""
    rows, width = values.shape
    data = values.astype("<f8", copy=False).tobytes()
    return pb.Logits(first_position=first_position, rows=rows, vocabulary_size=width, values=data)


def _rows(rows: LogitRows | None) -> pb.Logits | None:
    return logits(rows.first_position, rows.values) if rows is not None else None


def _entry(token: int, log_probability: float) -> pb.TokenLogProbability:
    return pb.TokenLogProbability(token_id=token, log_probability=log_probability)


def _top(top: tuple[TopAt, ...]) -> list[pb.TopEntries]:
    return [pb.TopEntries(position=t.position, entries=[_entry(*entry) for entry in t.entries]) for t in top]


def prefill(outcome: Appended) -> pb.PrefillResponse:
    """Return Prefill's answer."""
    return pb.PrefillResponse(
        session_id=outcome.session_id,
        position=outcome.position,
        token_ids=outcome.ids,
        logits=_rows(outcome.logits),
        top_entries=_top(outcome.top),
        work=work(outcome.work),
        total_work=work(outcome.total_work),
    )


def decode(outcome: Appended) -> pb.DecodeResponse:
    """Return Decode's answer."""
    return pb.DecodeResponse(
        position=outcome.position,
        token_ids=outcome.ids,
        logits=_rows(outcome.logits),
        top_entries=_top(outcome.top),
        work=work(outcome.work),
        total_work=work(outcome.total_work),
    )


def score(scores: tuple[SequenceScore, ...]) -> pb.ScoreResponse:
    """Return Score's answer."""
    total = sum((s.work for s in scores), Work())
    return pb.ScoreResponse(scores=[_sequence_score(s) for s in scores], work=work(total))


def _sequence_score(outcome: SequenceScore) -> pb.SequenceScore:
    tokens = [
        pb.ScoredToken(
            target_id=t.target, log_probability=t.log_probability, greedy=t.greedy, counted=t.counted
        )
        for t in outcome.tokens
    ]
    return pb.SequenceScore(
        token_ids=outcome.ids,
        tokens=tokens,
        sum_log_probability=outcome.sum_log_probability,
        mean_nll=outcome.mean_nll,
        logits=_rows(outcome.logits),
        top_entries=_top(outcome.top),
        work=work(outcome.work),
    )


def generation_event(event: GenerationEvent) -> pb.GenerateResponse:
    """Return one event of a generation."""
    if isinstance(event, Started):
        started = pb.GenerationStarted(
            session_id=event.session_id, token_ids=event.ids, position=event.position, seed=event.seed
        )
        return pb.GenerateResponse(started=started)
    if isinstance(event, Generated):
        return pb.GenerateResponse(token=_generated(event))
    return pb.GenerateResponse(finished=_finished(event))


def _generated(event: Generated) -> pb.GeneratedToken:
    row = logits(event.position - 1, event.logits[None]) if event.logits is not None else None
    return pb.GeneratedToken(
        token_id=event.token,
        position=event.position,
        text=event.text,
        log_probability=event.log_probability,
        logits=row,
        top_entries=[_entry(*entry) for entry in event.top],
    )


def _finished(event: Finished) -> pb.GenerationFinished:
    return pb.GenerationFinished(
        reason=_REASONS[event.reason],
        text=event.text,
        position=event.position,
        generated_tokens=event.generated,
        stop=event.stop,
        work=work(event.work),
        total_work=work(event.total_work),
    )


def session(state: SessionState) -> pb.GetSessionResponse:
    """Return GetSession's answer."""
    return pb.GetSessionResponse(
        session_id=state.session_id,
        position=state.position,
        token_ids=state.ids,
        total_work=work(state.total_work),
        cache_bytes=state.cache_bytes,
    )


def forked(state: SessionState) -> pb.ForkSessionResponse:
    """Return ForkSession's answer."""
    return pb.ForkSessionResponse(
        session_id=state.session_id, position=state.position, total_work=work(state.total_work)
    )


def truncated(state: SessionState) -> pb.TruncateSessionResponse:
    """Return TruncateSession's answer."""
    return pb.TruncateSessionResponse(
        position=state.position, total_work=work(state.total_work), cache_bytes=state.cache_bytes
    )


def audited(audit: Audit) -> pb.AuditSessionResponse:
    """Return AuditSession's answer."""
    found = audit.difference
    difference = None
    if found is not None:
        difference = pb.AuditDifference(
            layer=found.layer,
            stage=found.stage,
            position=found.position,
            feature=found.feature,
            cached=found.cached,
            recomputed=found.recomputed,
            ulps=found.ulps,
        )
    return pb.AuditSessionResponse(
        position=audit.position,
        compared_values=audit.compared_values,
        difference=difference,
        work=work(audit.work),
    )


def closed(state: SessionState) -> pb.CloseSessionResponse:
    """Return CloseSession's answer."""
    return pb.CloseSessionResponse(position=state.position, total_work=work(state.total_work))


def trace_started(event: TraceStarted, card: pb.GetModelResponse) -> pb.TraceResponse:
    """Return the first event of a trace of the model that ``card`` tells."""
    started = pb.TraceStarted(
        token_ids=event.ids,
        first_position=event.first_position,
        model_name=card.name,
        parameters_digest=card.parameters_digest,
        arithmetic_version=card.arithmetic_version,
        positions=event.positions,
        tensors=[_tensor_info(tensor) for tensor in event.tensors],
    )
    return pb.TraceResponse(started=started)


def _tensor_info(tensor: TensorShape) -> pb.TensorInfo:
    return pb.TensorInfo(name=tensor.name, type=pb.TENSOR_TYPE_F64, shape=tensor.shape)


def trace_event(event: TracePart | TraceFinished) -> pb.TraceResponse:
    """Return a later event of a trace."""
    if isinstance(event, TraceFinished):
        return pb.TraceResponse(finished=pb.TraceFinished(work=work(event.work)))
    part = pb.TensorPart(
        name=event.tensor.name,
        type=pb.TENSOR_TYPE_F64,
        shape=event.tensor.shape,
        first_row=event.first_row,
        positions=event.positions,
        values=event.values,
    )
    return pb.TraceResponse(part=part)
