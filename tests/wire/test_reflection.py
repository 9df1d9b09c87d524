"""The proto without our client and without our generated code: reflection and dynamic messages alone."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Iterable
from typing import Any

import grpc
import pytest
from google.protobuf.descriptor import ServiceDescriptor
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

from wire.daemons import Daemon
from zeroulp.v1 import decoder_pb2

SERVICE = "zeroulp.v1.DecoderService"


class Reflected:
    """A service as its server describes it."""

    def __init__(self, channel: grpc.Channel) -> None:
        self._channel = channel
        self.database = ProtoReflectionDescriptorDatabase(channel)
        self.pool = DescriptorPool(self.database)
        self.service: ServiceDescriptor = self.pool.FindServiceByName(SERVICE)

    def request(self, method: str, **fields: Any) -> Any:
        """Return a request message."""
        return GetMessageClass(self.service.methods_by_name[method].input_type)(**fields)

    def call(self, method: str, **fields: Any) -> Any:
        """Call a method; streaming ones give their answers one by one."""
        described = self.service.methods_by_name[method]
        answer: Callable[[bytes], Any] = GetMessageClass(described.output_type).FromString
        path = f"/{SERVICE}/{method}"
        kind = self._channel.unary_stream if described.server_streaming else self._channel.unary_unary
        make: Callable[..., Any] = kind
        calling = make(path, request_serializer=lambda m: m.SerializeToString(), response_deserializer=answer)
        return calling(self.request(method, **fields))


@pytest.fixture(scope="module")
def reflected(boundary_daemon: Daemon) -> Iterable[Reflected]:
    with grpc.insecure_channel(boundary_daemon.target) as channel:
        yield Reflected(channel)


def test_the_services_are_listed(reflected: Reflected) -> None:
    assert set(reflected.database.get_services()) == {
        SERVICE,
        "grpc.health.v1.Health",
        "grpc.reflection.v1alpha.ServerReflection",
    }
    streaming = [method.name for method in reflected.service.methods if method.server_streaming]
    assert streaming == ["Generate", "Trace"]


def test_the_descriptions_are_the_servers_own(reflected: Reflected) -> None:
    assert reflected.service.file.serialized_pb == decoder_pb2.DESCRIPTOR.serialized_pb
    assert reflected.service.file.pool is not decoder_pb2.DESCRIPTOR.pool


def test_a_conversation_with_the_reference_model(reflected: Reflected) -> None:
    model = reflected.call("GetModel")
    assert (model.name, model.parameter_count) == ("boundary-39", 1372)
    opened = reflected.call("Prefill", token_ids={"ids": [0, 99]})
    decoded = reflected.call("Decode", session_id=opened.session_id, token_ids={"ids": [100]})
    assert decoded.position == 3
    assert (decoded.total_work.cache_appends, decoded.total_work.attention_score_values) == (6, 12)
    assert hashlib.sha256(decoded.logits.values).hexdigest().startswith("dc56d488739ed868e66eb4")
    row = struct.unpack("<258d", decoded.logits.values)
    greedy = {"temperature": 0.0}
    events = list(
        reflected.call(
            "Generate",
            session_id=opened.session_id,
            max_new_tokens=2,
            sampling=greedy,
            ignore_end_tokens=True,
        )
    )
    assert [event.WhichOneof("event") for event in events] == ["started", "token", "token", "finished"]
    assert events[1].token.token_id == row.index(max(row))
    assert events[3].finished.position == 5
    scored = reflected.call(
        "Score", sequences=[{"token_ids": {"ids": [0, 99, 100]}, "targets": {"ids": [99, 100, 1]}}]
    )
    assert struct.pack(">d", scored.scores[0].mean_nll).hex() == "4016ac70bf03b620"
    assert reflected.call("CloseSession", session_id=opened.session_id).position == 5
