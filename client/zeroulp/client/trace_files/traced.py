"""From a trace that was read to a file."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from zeroulp.client.trace import Trace
from zeroulp.client.trace_files.facts import Facts
from zeroulp.client.trace_files.trace_file import write
from zeroulp.client.trace_tensor import TraceTensor


def write_trace(path: Path, trace: Trace, tensors: Iterable[TraceTensor]) -> None:
    """Write the tensors of a trace with what the trace says about them; raises TraceFileBroken."""
    arrays = {
        tensor.name: np.frombuffer(tensor.values, "<f8").reshape(tensor.shape).astype(np.float64, copy=False)
        for tensor in tensors
    }
    facts = Facts(
        model=trace.model_name,
        parameters_digest=trace.parameters_digest,
        arithmetic_version=str(trace.arithmetic_version),
        first_position=trace.first_position,
        token_ids=trace.token_ids,
        positions=trace.positions,
        order=tuple(arrays),
    )
    write(path, arrays, facts)
