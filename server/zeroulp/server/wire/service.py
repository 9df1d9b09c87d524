"""The servicer: one method an RPC, each from message to plain call to message."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import grpc

from zeroulp.model.errors import CallCancelled, EmptyPrompt
from zeroulp.model.loading import LoadedModel
from zeroulp.model.work import Work
from zeroulp.server.engine.calls import Finished, GenerationEvent, Scope, Started
from zeroulp.server.engine.engine import Engine
from zeroulp.server.engine.event_channel import EventChannel
from zeroulp.server.engine.stop_signal import StopSignal
from zeroulp.server.engine.trace_calls import TraceEvent, TraceFinished, TraceStarted
from zeroulp.server.jobs.audit import AuditJob
from zeroulp.server.jobs.decode import DecodeJob
from zeroulp.server.jobs.generate import GenerateJob
from zeroulp.server.jobs.job import Job
from zeroulp.server.jobs.prefill import PrefillJob
from zeroulp.server.jobs.score import ScoreJob
from zeroulp.server.jobs.session_calls import (
    CloseSessionJob,
    ForkSessionJob,
    GetSessionJob,
    TruncateSessionJob,
)
from zeroulp.server.jobs.trace import TraceJob
from zeroulp.server.wire import answers, requests
from zeroulp.server.wire.call_record import current_record
from zeroulp.server.wire.model_card import ModelCard
from zeroulp.server.wire.texts import Texts
from zeroulp.v1 import decoder_pb2 as pb
from zeroulp.v1 import decoder_pb2_grpc as pb_grpc


class DecoderService(pb_grpc.DecoderServiceServicer):
    """Keeps nothing between calls; limits and state are the engine's."""

    def __init__(self, engine: Engine, loaded: LoadedModel, card: ModelCard) -> None:
        self._engine = engine
        self._texts = Texts(loaded)
        self._card = card

    def GetModel(self, request: pb.GetModelRequest, context: grpc.ServicerContext) -> pb.GetModelResponse:
        """Tell the model and the limits in force."""
        return self._card.response()

    def Prefill(self, request: pb.PrefillRequest, context: grpc.ServicerContext) -> pb.PrefillResponse:
        """Open a session with a prompt."""
        ids = self._texts.prompt(request)
        outcome = self._run(PrefillJob(_stop(context), ids, requests.wanted(request, Scope.LAST)), context)
        _note(outcome.session_id, len(outcome.ids), outcome.work)
        return answers.prefill(outcome)

    def Decode(self, request: pb.DecodeRequest, context: grpc.ServicerContext) -> pb.DecodeResponse:
        """Append tokens to a session."""
        ids = self._texts.continuation(request)
        _note(request.session_id, len(ids), None)
        wanted = requests.wanted(request, Scope.LAST)
        outcome = self._run(DecodeJob(_stop(context), request.session_id, ids, wanted), context)
        _note(outcome.session_id, len(outcome.ids), outcome.work)
        return answers.decode(outcome)

    def Score(self, request: pb.ScoreRequest, context: grpc.ServicerContext) -> pb.ScoreResponse:
        """Tell the log-probabilities of given sequences."""
        sequences = tuple(requests.score_sequence(self._texts, sequence) for sequence in request.sequences)
        tokens = sum(len(sequence.ids) for sequence in sequences)
        _note(None, tokens, None)
        wanted = requests.wanted(request, Scope.NONE)
        scores = self._run(ScoreJob(_stop(context), sequences, wanted), context)
        _note(None, tokens, sum((score.work for score in scores), Work()))
        return answers.score(scores)

    def Generate(
        self, request: pb.GenerateRequest, context: grpc.ServicerContext
    ) -> Iterator[pb.GenerateResponse]:
        """Stream a generation, or take a broken one up again."""
        channel: EventChannel[GenerationEvent] = EventChannel(self._engine.limits.generate_ahead)
        channel.on_room = self._engine.wake
        stop = _stop(context)
        if request.HasField("resume_position"):
            requests.check_resume(request)
            job = GenerateJob(
                stop, None, channel, session_id=request.session_id, resume_position=request.resume_position
            )
        else:
            job = GenerateJob(stop, requests.generate_call(self._texts, request), channel)
        try:
            self._submit(job, context)
            for event in channel:
                if isinstance(event, Started):
                    _note(event.session_id, len(event.ids), None)
                elif isinstance(event, Finished):
                    current_record.get().work = event.work
                yield answers.generation_event(event)
        finally:
            # However the stream ends, its job does not go on without a reader.
            stop.cancel()

    def Trace(self, request: pb.TraceRequest, context: grpc.ServicerContext) -> Iterator[pb.TraceResponse]:
        """Stream the stages of a pass."""
        call = requests.trace_call(self._texts, request)
        _note(call.session_id, len(call.ids), None)
        # One event ahead of the reader: an event is a megabyte.
        channel: EventChannel[TraceEvent] = EventChannel(1)
        channel.on_room = self._engine.wake
        job = TraceJob(_stop(context), call, channel)
        try:
            self._submit(job, context)
            for event in channel:
                if isinstance(event, TraceStarted):
                    yield answers.trace_started(event, self._card.response())
                    continue
                if isinstance(event, TraceFinished):
                    current_record.get().work = event.work
                yield answers.trace_event(event)
        finally:
            # However the stream ends, its job does not go on without a reader.
            job.stop.cancel()

    def GetSession(
        self, request: pb.GetSessionRequest, context: grpc.ServicerContext
    ) -> pb.GetSessionResponse:
        """Tell a session's state."""
        _note(request.session_id, None, None)
        return answers.session(self._run(GetSessionJob(_stop(context), request.session_id), context))

    def ForkSession(
        self, request: pb.ForkSessionRequest, context: grpc.ServicerContext
    ) -> pb.ForkSessionResponse:
        """Open a copy of a session."""
        _note(request.session_id, None, None)
        state = self._run(ForkSessionJob(_stop(context), request.session_id), context)
        current_record.get().fork = state.session_id
        return answers.forked(state)

    def TruncateSession(
        self, request: pb.TruncateSessionRequest, context: grpc.ServicerContext
    ) -> pb.TruncateSessionResponse:
        """Roll a session back."""
        _note(request.session_id, None, None)
        job = TruncateSessionJob(_stop(context), request.session_id, request.position)
        return answers.truncated(self._run(job, context))

    def AuditSession(
        self, request: pb.AuditSessionRequest, context: grpc.ServicerContext
    ) -> pb.AuditSessionResponse:
        """Hold a session against the full forward."""
        _note(request.session_id, None, None)
        audit = self._run(AuditJob(_stop(context), request.session_id), context)
        _note(request.session_id, None, audit.work)
        return answers.audited(audit)

    def CloseSession(
        self, request: pb.CloseSessionRequest, context: grpc.ServicerContext
    ) -> pb.CloseSessionResponse:
        """Free a session."""
        _note(request.session_id, None, None)
        return answers.closed(self._run(CloseSessionJob(_stop(context), request.session_id), context))

    def Tokenize(self, request: pb.TokenizeRequest, context: grpc.ServicerContext) -> pb.TokenizeResponse:
        """Turn text into ids."""
        kind = request.WhichOneof("input")
        if kind == "chat":
            return pb.TokenizeResponse(token_ids=self._texts.chat(request.chat))
        if kind is None:
            raise EmptyPrompt("the request has no input; give text or chat", field="input")
        tokenizer = self._texts.tokenizer
        encode = tokenizer.encode_document if request.whole_document else tokenizer.encode_prompt
        return pb.TokenizeResponse(token_ids=encode(request.text))

    def Detokenize(
        self, request: pb.DetokenizeRequest, context: grpc.ServicerContext
    ) -> pb.DetokenizeResponse:
        """Turn ids into text."""
        return pb.DetokenizeResponse(text=self._texts.text(request.token_ids.ids, request.skip_control))

    def _submit(self, job: Job, context: grpc.ServicerContext) -> None:
        job.stop.on_cancel = self._engine.wake
        current_record.get().job = job
        self._engine.submit(job)
        if not context.add_callback(job.stop.cancel):
            job.stop.cancel()

    def _run(self, job: Job, context: grpc.ServicerContext) -> Any:
        self._submit(job, context)
        return job.future.result()


def _stop(context: grpc.ServicerContext) -> StopSignal:
    if not context.is_active():
        raise CallCancelled("the caller cancelled before the call was started")
    return StopSignal(context.time_remaining())


def _note(session: str | None, tokens: int | None, work: Any) -> None:
    record = current_record.get()
    record.session, record.tokens, record.work = session, tokens, work
