"""What a trace will compute and keep, checked and priced before the first row."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from zeroulp.model.errors import InvalidArgument, MessageTooLarge
from zeroulp.model.kernels.arrays import I64
from zeroulp.model.tracing.stages import Stage, selected, stages_of
from zeroulp.server.engine.hall import Hall
from zeroulp.server.engine.limits import Limits
from zeroulp.server.engine.trace_calls import TraceCall

_VALUE_BYTES = 8
MESSAGE_SLACK = 4096
"""Bytes for the fields of a part beside its values and positions."""
POSITION_BYTES = 10
"""Bytes that a position or an id takes on the wire at the most."""
_TENSOR_BYTES = 96
"""Bytes of a tensor's name, type and shape, likewise."""


@dataclass(frozen=True, slots=True, eq=False)
class TracePlan:
    """``ids [n]`` from position ``first`` on; the stages and positions to keep of those after the prefix."""

    ids: I64
    first: int
    prefix: int
    stages: tuple[Stage, ...]
    positions: I64

    @property
    def traces_logits(self) -> bool:
        """Whether the last stage is among the chosen."""
        return self.stages[-1].stage == "logits"

    @property
    def nbytes(self) -> int:
        """Bytes of the values to keep."""
        return _VALUE_BYTES * self.positions.size * sum(stage.features for stage in self.stages)


def planned(hall: Hall, call: TraceCall, first: int) -> TracePlan:
    """Return the plan of a call whose first token stands at ``first``; raises for what cannot be traced."""
    hall.model.check_room(first, len(call.ids), field="token_ids")
    ids = hall.model.check_tokens(call.ids, field="token_ids")
    prefix = call.prefix_tokens
    if prefix is not None and not 1 <= prefix < ids.size:
        raise InvalidArgument(
            f"prefix_tokens is {prefix} of {ids.size} tokens; at least one token goes before the cached step "
            f"and at least one through it",
            field="prefix_tokens",
        )
    _check_patterns(hall.limits, call.names)
    stages = selected(stages_of(hall.model.configuration), call.names, field="names")
    positions = _positions(call.positions, first + (prefix or 0), first + ids.size)
    _check_messages(hall.limits, stages, ids.size + 2 * positions.size)
    return TracePlan(ids, first, prefix or 0, stages, positions)


def _check_patterns(limits: Limits, patterns: tuple[str, ...]) -> None:
    if len(patterns) > limits.max_trace_patterns:
        raise InvalidArgument(
            f"names has {len(patterns)} patterns; {limits.max_trace_patterns} are allowed", field="names"
        )
    for index, pattern in enumerate(patterns):
        size = len(pattern.encode())
        if size > limits.max_trace_pattern_bytes:
            raise InvalidArgument(
                f"names[{index}] has {size} bytes; {limits.max_trace_pattern_bytes} are allowed",
                field=f"names[{index}]",
            )


def _positions(given: tuple[int, ...], first: int, end: int) -> I64:
    """Return the positions to keep of ``first .. end``, all of them if none is given."""
    before = first - 1
    for index, position in enumerate(given):
        if not before < position < end:
            last = "" if before < first else f" and stands after {before}"
            raise InvalidArgument(
                f"positions[{index}] is {position}{last}; "
                f"the traced positions are {first} to {end - 1}, and positions ascend",
                field=f"positions[{index}]",
            )
        before = position
    return np.array(given, np.int64) if given else np.arange(first, end, dtype=np.int64)


def _check_messages(limits: Limits, stages: tuple[Stage, ...], numbers: int) -> None:
    """Raise ``MessageTooLarge`` if the first event, or one row of the widest stage, is no message."""
    row = _VALUE_BYTES * max(stage.features for stage in stages)
    size = max(row, numbers * POSITION_BYTES + len(stages) * _TENSOR_BYTES) + MESSAGE_SLACK
    if size > limits.max_message_bytes:
        raise MessageTooLarge(
            f"a message of the trace would have about {size} bytes; {limits.max_message_bytes} are allowed",
            message_bytes=size,
            max_message_bytes=limits.max_message_bytes,
        )
