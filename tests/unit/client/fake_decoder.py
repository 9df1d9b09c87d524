"""A daemon without a model: canned arithmetic, real gRPC, and faults on demand."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import grpc
from google.protobuf.message import Message
from google.rpc import status_pb2
from grpc_health.v1 import health_pb2_grpc
from grpc_health.v1.health import HealthServicer
from grpc_status import rpc_status

from unit.client.fake_arithmetic import END_TOKEN, LAYERS, V, chat_ids, greedy_after, logits_after, work
from zeroulp.v1 import decoder_pb2 as pb
from zeroulp.v1 import decoder_pb2_grpc as pb_grpc


def rich(code: grpc.StatusCode, message: str, *details: Message) -> grpc.Status:
    status = status_pb2.Status(code=code.value[0], message=message)
    for detail in details:
        status.details.add().Pack(detail)
    return rpc_status.to_status(status)


class FakeDecoder(pb_grpc.DecoderServiceServicer):
    """What tests set before a call, and read after it."""

    def __init__(self) -> None:
        self.sessions: dict[str, list[int]] = {}
        self.requests: list[Message] = []
        self.failures: dict[str, grpc.Status] = {}
        """By method name."""
        self.stall_after: int | None = None
        """A generation stands still after so many tokens until it is cancelled."""
        self.fail_after: tuple[int, grpc.Status] | None = None
        self.events: list[pb.GenerateResponse] | None = None
        """Sent instead of a generation."""
        self.trace: list[pb.TraceResponse] = []
        """Sent as a trace."""
        self.tail = ""
        self.forget_at: str | None = None
        """A method whose calls find all sessions gone."""
        self.short_memory = False
        """The template leaves out all turns but the last."""
        self.corrupt_scores = False
        self.ended = threading.Event()
        self._names = itertools.count(1)

    def _enter(self, method: str, request: Message, context: grpc.ServicerContext) -> None:
        self.requests.append(request)
        if method == self.forget_at:
            self.sessions.clear()
        if method in self.failures:
            context.abort_with_status(self.failures[method])

    def _ids(self, request: Any) -> list[int]:
        match request.WhichOneof("input"):
            case "token_ids":
                return list(request.token_ids.ids)
            case "text":
                return list(request.text.encode())
            case "chat":
                turns = request.chat.messages[-1:] if self.short_memory else request.chat.messages
                return chat_ids(turns, request.chat.add_generation_prompt)
        return []

    def _open(self, ids: Iterable[int]) -> str:
        name = f"session-{next(self._names)}"
        self.sessions[name] = list(ids)
        return name

    def _session(self, name: str, context: grpc.ServicerContext) -> list[int]:
        if name not in self.sessions:
            context.abort(grpc.StatusCode.NOT_FOUND, "no such session")
        return self.sessions[name]

    def GetModel(self, request: pb.GetModelRequest, context: grpc.ServicerContext) -> pb.GetModelResponse:
        self._enter("GetModel", request, context)
        return pb.GetModelResponse(
            name="fake",
            configuration=pb.ModelConfiguration(vocabulary_size=V, layers=LAYERS),
            parameters=[pb.ParameterInfo(name="table", shape=[V, 4], storage="f64")],
            parameter_count=4 * V,
            parameter_bytes=32 * V,
            parameters_digest="ab" * 32,
            tokenizer_kind="bytes",
            end_token_ids=[END_TOKEN],
            limits=pb.Limits(max_sessions=7),
        )

    def Prefill(self, request: pb.PrefillRequest, context: grpc.ServicerContext) -> pb.PrefillResponse:
        self._enter("Prefill", request, context)
        ids = self._ids(request)
        return pb.PrefillResponse(
            session_id=self._open(ids),
            position=len(ids),
            token_ids=ids,
            logits=logits_after(ids, [len(ids)]),
            work=work(len(ids)),
            total_work=work(len(ids)),
        )

    def Decode(self, request: pb.DecodeRequest, context: grpc.ServicerContext) -> pb.DecodeResponse:
        self._enter("Decode", request, context)
        session = self._session(request.session_id, context)
        ids = self._ids(request)
        session += ids
        none = request.logits_scope == pb.LOGITS_SCOPE_NONE
        return pb.DecodeResponse(
            position=len(session),
            token_ids=ids,
            logits=None if none else logits_after(session, [len(session)]),
            top_entries=[
                pb.TopEntries(
                    position=len(session) - 1,
                    entries=[pb.TokenLogProbability(token_id=1, log_probability=-2)],
                )
            ],
            work=work(len(ids)),
            total_work=work(len(session)),
        )

    def Score(self, request: pb.ScoreRequest, context: grpc.ServicerContext) -> pb.ScoreResponse:
        self._enter("Score", request, context)
        return pb.ScoreResponse(
            scores=[self._score(sequence) for sequence in request.sequences], work=work(3)
        )

    def _score(self, sequence: pb.ScoreSequence) -> pb.SequenceScore:
        ids = self._ids(sequence)
        logits = logits_after(ids, range(1, len(ids) + 1))
        if self.corrupt_scores:
            # Three bits, in the row before the last.
            values = bytearray(logits.values)
            values[-V * 8 - 1] ^= 0b111
            logits.values = bytes(values)
        targets = list(sequence.targets.ids) if sequence.HasField("targets") else ids[1:]
        return pb.SequenceScore(
            token_ids=ids,
            tokens=[
                pb.ScoredToken(target_id=t, log_probability=-0.5, greedy=t % 2 == 0, counted=True)
                for t in targets
            ],
            sum_log_probability=-0.5 * len(targets),
            mean_nll=0.5 if targets else None,
            logits=logits,
            work=work(len(ids)),
        )

    def Generate(
        self, request: pb.GenerateRequest, context: grpc.ServicerContext
    ) -> Iterator[pb.GenerateResponse]:
        # At the end of every call, which for a stalled one is its cancellation.
        context.add_callback(self.ended.set)
        self._enter("Generate", request, context)
        if self.events is not None:
            yield from self.events
            return
        ids = self._ids(request)
        if request.HasField("session_id"):
            name = request.session_id
            self._session(name, context).extend(ids)
        else:
            name = self._open(ids)
        yield from self._stream(request, context, name, ids)
        if request.close_session:
            del self.sessions[name]

    def _stream(
        self, request: pb.GenerateRequest, context: grpc.ServicerContext, name: str, ids: list[int]
    ) -> Iterator[pb.GenerateResponse]:
        session = self.sessions[name]
        start = request.resume_position if request.HasField("resume_position") else len(session)
        yield pb.GenerateResponse(
            started=pb.GenerationStarted(
                session_id=name, token_ids=ids, position=start, seed=request.sampling.seed or 99
            )
        )
        count = request.max_new_tokens if request.HasField("max_new_tokens") else 5
        del session[start:]
        for number in range(count):
            if self.stall_after == number:
                self.ended.wait(20)
            if self.fail_after is not None and self.fail_after[0] == number:
                context.abort_with_status(self.fail_after[1])
            token = greedy_after(session)
            session.append(token)
            yield pb.GenerateResponse(token=self._token(request, session))
        yield pb.GenerateResponse(
            finished=pb.GenerationFinished(
                reason=pb.FINISH_REASON_LENGTH,
                text=self.tail,
                position=len(session),
                generated_tokens=count,
                work=work(len(ids) + count),
                total_work=work(len(session)),
            )
        )

    def _token(self, request: pb.GenerateRequest, session: list[int]) -> pb.GeneratedToken:
        position = len(session) - 1
        token = pb.GeneratedToken(token_id=session[-1], position=position, text=chr(session[-1]))
        if request.log_probabilities:
            token.log_probability = -1.0
        if request.logits_scope == pb.LOGITS_SCOPE_LAST:
            token.logits.CopyFrom(logits_after(session, [position]))
        if request.top_entries:
            token.top_entries.add(token_id=session[-1], log_probability=-1.0)
        return token

    def Trace(self, request: pb.TraceRequest, context: grpc.ServicerContext) -> Iterator[pb.TraceResponse]:
        self._enter("Trace", request, context)
        yield from self.trace

    def GetSession(
        self, request: pb.GetSessionRequest, context: grpc.ServicerContext
    ) -> pb.GetSessionResponse:
        self._enter("GetSession", request, context)
        session = self._session(request.session_id, context)
        return pb.GetSessionResponse(
            session_id=request.session_id,
            position=len(session),
            token_ids=session,
            total_work=work(len(session)),
            cache_bytes=64 * len(session),
        )

    def ForkSession(
        self, request: pb.ForkSessionRequest, context: grpc.ServicerContext
    ) -> pb.ForkSessionResponse:
        self._enter("ForkSession", request, context)
        ids = self._session(request.session_id, context)
        total = pb.Work(reused_tokens=len(ids))
        return pb.ForkSessionResponse(session_id=self._open(ids), position=len(ids), total_work=total)

    def TruncateSession(
        self, request: pb.TruncateSessionRequest, context: grpc.ServicerContext
    ) -> pb.TruncateSessionResponse:
        self._enter("TruncateSession", request, context)
        session = self._session(request.session_id, context)
        total = work(len(session))
        del session[request.position :]
        return pb.TruncateSessionResponse(position=len(session), total_work=total, cache_bytes=64)

    def AuditSession(
        self, request: pb.AuditSessionRequest, context: grpc.ServicerContext
    ) -> pb.AuditSessionResponse:
        self._enter("AuditSession", request, context)
        session = self._session(request.session_id, context)
        difference = None
        if session[-1] == END_TOKEN:
            difference = pb.AuditDifference(
                layer=0, stage="key", position=1, feature=2, cached=1.0, recomputed=1.5, ulps=9
            )
        return pb.AuditSessionResponse(
            position=len(session), compared_values=7, difference=difference, work=work(len(session))
        )

    def CloseSession(
        self, request: pb.CloseSessionRequest, context: grpc.ServicerContext
    ) -> pb.CloseSessionResponse:
        self._enter("CloseSession", request, context)
        session = self._session(request.session_id, context)
        del self.sessions[request.session_id]
        return pb.CloseSessionResponse(position=len(session), total_work=work(len(session)))

    def Tokenize(self, request: pb.TokenizeRequest, context: grpc.ServicerContext) -> pb.TokenizeResponse:
        self._enter("Tokenize", request, context)
        return pb.TokenizeResponse(token_ids=self._ids(request) + [END_TOKEN] * request.whole_document)

    def Detokenize(
        self, request: pb.DetokenizeRequest, context: grpc.ServicerContext
    ) -> pb.DetokenizeResponse:
        self._enter("Detokenize", request, context)
        ids = [token for token in request.token_ids.ids if not (request.skip_control and token == END_TOKEN)]
        return pb.DetokenizeResponse(text=bytes(ids).decode())


@contextmanager
def serving(decoder: FakeDecoder, health: HealthServicer | None = None) -> Iterator[str]:
    """Serve on a free port, and give its address."""
    server = grpc.server(ThreadPoolExecutor(4))
    pb_grpc.add_DecoderServiceServicer_to_server(decoder, server)
    if health is not None:
        health_pb2_grpc.add_HealthServicer_to_server(health, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        decoder.ended.set()
        server.stop(None).wait()
