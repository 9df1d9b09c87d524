"""A trace as the client reads it: whole tensors in order, and faults by name."""

from __future__ import annotations

import struct

import pytest

from unit.client.fake_decoder import FakeDecoder
from zeroulp.client import Client, ProtocolBroken, TraceTensor
from zeroulp.v1 import decoder_pb2 as pb

F64 = pb.TENSOR_TYPE_F64


def packed(*values: float) -> bytes:
    return struct.pack(f"<{len(values)}d", *values)


TENSORS = (
    pb.TensorInfo(name="embed", type=F64, shape=[2, 2]),
    pb.TensorInfo(name="logits", type=F64, shape=[2, 1]),
)


def started(*tensors: pb.TensorInfo) -> pb.TraceResponse:
    start = pb.TraceStarted(
        token_ids=[5, 6, 7],
        first_position=2,
        model_name="fake",
        parameters_digest="ab",
        arithmetic_version=1,
        positions=[2, 4],
        tensors=tensors or TENSORS,
    )
    return pb.TraceResponse(started=start)


def part(name: str, row: int, positions: list[int], values: bytes) -> pb.TraceResponse:
    return pb.TraceResponse(
        part=pb.TensorPart(name=name, type=F64, first_row=row, positions=positions, values=values)
    )


EMBED = [part("embed", 0, [2], packed(1, 2)), part("embed", 1, [4], packed(3, 4))]
LOGITS = part("logits", 0, [2, 4], packed(5, 6))
END = pb.TraceResponse(finished=pb.TraceFinished(work=pb.Work(token_forwards=3)))


def test_parts_become_whole_tensors(decoder: FakeDecoder, client: Client) -> None:
    decoder.trace = [started(), *EMBED, LOGITS, END]
    with client.trace([5, 6, 7], cached_prefix=0, names=["*"], positions=[2, 4]) as trace:
        assert (trace.token_ids, trace.first_position, trace.positions) == ((5, 6, 7), 2, (2, 4))
        assert (trace.model_name, trace.parameters_digest, trace.arithmetic_version) == ("fake", "ab", 1)
        assert [(info.name, info.shape) for info in trace.tensors] == [("embed", (2, 2)), ("logits", (2, 1))]
        with pytest.raises(RuntimeError, match="read to its end"):
            _ = trace.work
        assert list(trace) == [
            TraceTensor("embed", (2, 2), (2, 4), packed(1, 2, 3, 4)),
            TraceTensor("logits", (2, 1), (2, 4), packed(5, 6)),
        ]
        assert trace.work.token_forwards == 3
    (request,) = decoder.requests
    assert request == pb.TraceRequest(
        token_ids=pb.TokenIds(ids=[5, 6, 7]), prefix_tokens=0, names=["*"], positions=[2, 4]
    )


def test_requests(decoder: FakeDecoder, client: Client) -> None:
    decoder.trace = [started(), *EMBED, LOGITS, END]
    list(client.trace("ab"))
    list(client.session("s").trace([1], names=["embed"]))
    assert decoder.requests == [
        pb.TraceRequest(text="ab"),
        pb.TraceRequest(token_ids=pb.TokenIds(ids=[1]), session_id="s", names=["embed"]),
    ]
    with pytest.raises(TypeError, match="sequence of patterns"):
        client.trace([1], names="embed")


@pytest.mark.parametrize(
    ("events", "message"),
    [
        ([], "without its first event"),
        ([END], "without its first event"),
        ([started(pb.TensorInfo(name="x", shape=[2, 2]))], "announced x"),
        ([started(pb.TensorInfo(name="x", type=F64, shape=[2]))], "announced x"),
        ([started(), EMBED[0]], "within embed"),
        ([started(), EMBED[0], EMBED[0]], "within embed"),
        ([started(), EMBED[1]], "within embed"),
        ([started(), LOGITS], "within embed"),
        ([started(), *EMBED, END], "within logits"),
        ([started(), *EMBED, part("logits", 0, [2, 4], packed(5))], "within logits"),
        ([started(), *EMBED, part("logits", 0, [], b"")], "within logits"),
        ([started(), *EMBED, LOGITS], "without its last event"),
        ([started(), *EMBED, LOGITS, LOGITS], "after its last tensor"),
        ([started(), *EMBED, LOGITS, END, END], "after its last tensor"),
    ],
)
def test_a_broken_contract_is_told(
    decoder: FakeDecoder, client: Client, events: list[pb.TraceResponse], message: str
) -> None:
    decoder.trace = events
    with pytest.raises(ProtocolBroken, match=message):
        list(client.trace([1]))


def tensor(rows: int, features: int) -> TraceTensor:
    positions = tuple(range(10, 10 + rows))
    return TraceTensor("x", (rows, features), positions, packed(*range(rows * features)))


def test_rows() -> None:
    x = tensor(3, 2)
    assert (bytes(x.row(1)), list(x.floats(2))) == (packed(2, 3), [4, 5])
    for outside in (-1, 3):
        with pytest.raises(IndexError):
            x.row(outside)


def shown(x: TraceTensor) -> list[tuple[int, tuple[float, ...]]]:
    return [(row.position, row.values) for row in x.sample()]


def test_a_sample_shows_the_corners_of_a_large_tensor() -> None:
    assert shown(tensor(2, 2)) == [(10, (0, 1)), (11, (2, 3))]
    assert [len(row.values) for row in tensor(1, 64).sample()] == [64]
    assert shown(tensor(1, 65)) == [(10, (0, 1, 2, 62, 63, 64))]
    assert shown(tensor(30, 10)) == [(10, (0, 1, 2, 7, 8, 9)), (39, (290, 291, 292, 297, 298, 299))]
    assert shown(tensor(30, 4)) == [(10, (0, 1, 2, 3)), (39, (116, 117, 118, 119))]
    assert tensor(30, 10).sample()[0].features == (0, 1, 2, 7, 8, 9)
