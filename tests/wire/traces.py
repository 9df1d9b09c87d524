"""Whole traces, as wire tests read them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from wire.calls import ids
from zeroulp.model.composition.language_model import LanguageModel
from zeroulp.model.context import NoGrad
from zeroulp.model.full_forward import full_forward
from zeroulp.model.kernels.arrays import F64
from zeroulp.model.tracing.stages import stages_of
from zeroulp.v1 import decoder_pb2 as pb
from zeroulp.v1.decoder_pb2_grpc import DecoderServiceStub


@dataclass(frozen=True)
class Trace:
    """A trace that was read to its end; ``tensors`` by name, in the order in which they came."""

    started: pb.TraceStarted
    parts: list[pb.TensorPart]
    work: pb.Work
    tensors: dict[str, F64]

    @property
    def positions(self) -> list[int]:
        return list(self.started.positions)

    def rows(self) -> dict[tuple[str, int], bytes]:
        """Each row's bits by tensor and position."""
        return {
            (name, position): values[row].tobytes()
            for name, values in self.tensors.items()
            for row, position in enumerate(self.positions)
        }


def trace(stub: DecoderServiceStub, tokens: list[int] | str, **fields: Any) -> Trace:
    """Trace ids or text."""
    given: dict[str, Any] = {"text": tokens} if isinstance(tokens, str) else {"token_ids": ids(*tokens)}
    return read(stub.Trace(pb.TraceRequest(**given, **fields)))


def read(stream: Any) -> Trace:
    """Read a trace to its end, and check that the stream keeps its contract."""
    events: list[pb.TraceResponse] = list(stream)
    kinds = [event.WhichOneof("event") for event in events]
    assert kinds == ["started", *["part"] * (len(events) - 2), "finished"]
    started, parts = events[0].started, [event.part for event in events[1:-1]]
    return Trace(started, parts, events[-1].finished.work, _tensors(started, parts))


def _tensors(started: pb.TraceStarted, parts: list[pb.TensorPart]) -> dict[str, F64]:
    tensors = {}
    left = list(parts)
    for info in started.tensors:
        assert info.type == pb.TENSOR_TYPE_F64
        rows, features = info.shape
        assert rows == len(started.positions)
        values: list[F64] = []
        while len(values) < rows:
            part = left.pop(0)
            assert (part.name, part.type, list(part.shape)) == (info.name, info.type, [rows, features])
            assert part.first_row == len(values)
            end = part.first_row + len(part.positions)
            assert list(part.positions) == list(started.positions[part.first_row : end])
            values.extend(np.frombuffer(part.values, "<f8").reshape(len(part.positions), features))
        tensors[info.name] = np.array(values)
    assert not left
    return tensors


def observed(model: LanguageModel, context: NoGrad, tokens: list[int]) -> dict[tuple[str, int], bytes]:
    """Each row's bits by tensor and position, as an observer of one full forward sees them."""
    names = {(stage.layer, stage.stage): stage.name for stage in stages_of(model.configuration)}
    rows: dict[tuple[str, int], bytes] = {}

    def see(layer: int | None, stage: str, values: F64) -> None:
        rows.update({(names[layer, stage], t): row.tobytes() for t, row in enumerate(values)})

    full_forward(model, context.observed_by(see), tokens)
    return rows
