"""Every error that the model raises for its callers.

ZeroulpError
├── ModelRefused                  a model that cannot be loaded: file, format, name (start-up)
│   ├── UnknownModel
│   ├── MalformedFile
│   └── UnsupportedModel
├── InputRefused                  vectors that a backbone does not take, known before any block runs
│   ├── WrongWidth
│   ├── MalformedLayout
│   ├── TooManyRows
│   ├── PositionOutOfCapacity
│   ├── TrackedInput
│   ├── ForeignBackbone
│   ├── BackboneChanged
│   ├── ProducerChanged
│   ├── InputChanged
│   ├── EmptyProvenance
│   └── ComponentMismatch         components that do not fit into one backbone
├── GraphError                    a backward pass that cannot be the gradient of its forward
│   ├── NotTracked
│   ├── StaleRevision
│   └── GraphReleased
├── CacheRefused                  a cached call that its cache is not ready for, known before any block runs
│   ├── CacheFilled
│   └── CacheEmpty
├── UpdateRefused                 an optimiser's step that would leave parameters worse than it found them
│   ├── GradientMissing
│   └── UpdateNotFinite
└── CallError                     a call that was refused or failed, with a closed ``reason``
    ├── InputError                the caller's input, known before anything is computed
    │   ├── EmptyPrompt
    │   ├── TokenOutOfRange
    │   ├── InvalidArgument
    │   └── ContextFull
    ├── SessionUnknown
    ├── SessionBusy
    ├── ParametersChanged
    ├── ResourceError             the server's limits, worth a retry
    │   ├── CacheBudget
    │   ├── SessionLimit
    │   ├── QueueFull
    │   ├── ReloadRunning
    │   └── MessageTooLarge
    ├── Draining
    ├── NonFinite                 the arithmetic left the finite numbers
    ├── CallCancelled
    ├── DeadlinePassed
    └── Unauthenticated

The wire's statuses are assigned to these in one place, in the server.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar


@dataclass(frozen=True, slots=True)
class FieldViolation:
    """One field of a request and what is wrong with it, in words for its sender."""

    field: str
    description: str


class ZeroulpError(Exception):
    """Base of all errors raised on purpose."""


class ModelRefused(ZeroulpError):
    """A model cannot be loaded; the message names the file or tensor and what is allowed."""


class UnknownModel(ModelRefused):
    """No built-in, pulled model or file has this name."""


class MalformedFile(ModelRefused):
    """A model file is truncated or contradicts itself."""


class UnsupportedModel(ModelRefused):
    """A well-formed model file of a kind that is not served (untied, another architecture)."""


class InputRefused(ZeroulpError):
    """Vectors, or their layout or origin, do not fit the backbone; no block has run."""


class WrongWidth(InputRefused):
    """Vectors of another width than the residual stream's."""


class MalformedLayout(InputRefused):
    """A layout that contradicts itself or the vectors."""


class TooManyRows(InputRefused):
    """More rows in a sequence than the model has positions."""


class PositionOutOfCapacity(InputRefused):
    """A RoPE position that the model does not have."""


class TrackedInput(InputRefused):
    """Vectors that were encoded under recording and are consumed without a graph, or the other way round."""


class ForeignBackbone(InputRefused):
    """Vectors that were prepared for another backbone, whatever its values are."""


class BackboneChanged(InputRefused):
    """A parameter of the backbone has changed since the vectors were prepared."""


class ProducerChanged(InputRefused):
    """A parameter that made the vectors has changed since."""


class InputChanged(InputRefused):
    """The prepared vectors themselves have changed."""


class EmptyProvenance(InputRefused):
    """Vectors without a word on where they come from."""


class ComponentMismatch(InputRefused):
    """Blocks or a final norm that do not have the sizes and constants of the backbone's configuration."""


class GraphError(ZeroulpError):
    """A backward pass that was refused; no gradient has changed."""


class NotTracked(GraphError):
    """Nothing that learns was recorded behind the value."""


class StaleRevision(GraphError):
    """A node has another value than the forward read."""


class GraphReleased(GraphError):
    """An earlier backward pass has let the graph go."""


class CacheRefused(ZeroulpError):
    """A cached call in the wrong order; the cache is as it was, and no block has run."""


class CacheFilled(CacheRefused):
    """A prefill of a cache that holds rows already."""


class CacheEmpty(CacheRefused):
    """A decode before any prefill."""


class UpdateRefused(ZeroulpError):
    """A step of an optimiser that was refused; no parameter has moved."""


class GradientMissing(UpdateRefused):
    """A parameter without a gradient."""


class UpdateNotFinite(UpdateRefused):
    """A NaN or an infinity in a gradient, or in what it would make of its parameter."""


class CallError(ZeroulpError):
    """A call that changed nothing; ``reason`` is a stable name from the wire's closed list."""

    reason: ClassVar[str]

    def __init__(self, message: str, *, field: str | None = None, **metadata: object) -> None:
        super().__init__(message)
        self.message = message
        self.metadata: Mapping[str, str] = {key: str(value) for key, value in metadata.items()}
        self.violations: tuple[FieldViolation, ...] = (FieldViolation(field, message),) if field else ()


class InputError(CallError):
    """The caller's input is at fault; nothing was computed."""


class EmptyPrompt(InputError):
    """A prompt without tokens."""

    reason = "EMPTY_PROMPT"


class TokenOutOfRange(InputError):
    """A token id outside the vocabulary."""

    reason = "TOKEN_OUT_OF_RANGE"


class InvalidArgument(InputError):
    """A field with a value that is not allowed."""

    reason = "INVALID_ARGUMENT_VALUE"


class ContextFull(InputError):
    """More positions than the model or the session has left."""

    reason = "CONTEXT_FULL"


class SessionUnknown(CallError):
    """No session of the caller has this id."""

    reason = "SESSION_UNKNOWN"


class SessionBusy(CallError):
    """Too many calls are already waiting for their turn on the session."""

    reason = "SESSION_BUSY"


class ParametersChanged(CallError):
    """The session's cache was built with parameters that have changed since."""

    reason = "PARAMETERS_CHANGED"


class ResourceError(CallError):
    """A limit of the server is reached; the same call may succeed later or smaller."""


class CacheBudget(ResourceError):
    """Not enough free cache blocks."""

    reason = "CACHE_BUDGET"


class SessionLimit(ResourceError):
    """Too many open sessions."""

    reason = "SESSION_LIMIT"


class QueueFull(ResourceError):
    """Too many calls are waiting."""

    reason = "QUEUE_FULL"


class ReloadRunning(ResourceError):
    """Other parameters are being loaded; one such call at a time."""

    reason = "RELOAD_RUNNING"


class MessageTooLarge(ResourceError):
    """The answer would be larger than a message may be."""

    reason = "MESSAGE_TOO_LARGE"


class Draining(CallError):
    """The server is stopping and takes no new work."""

    reason = "DRAINING"


class NonFinite(CallError):
    """A NaN or an infinity appeared; ``layer`` (None outside the blocks) and ``stage`` say where."""

    reason = "NON_FINITE"

    def __init__(self, layer: int | None, stage: str, row: int) -> None:
        place = stage if layer is None else f"layer {layer}, {stage}"
        where: dict[str, Any] = {} if layer is None else {"layer": layer}
        super().__init__(
            f"a value that is not finite appeared in {place}; nothing was committed", stage=stage, **where
        )
        self.row = row
        """Row of the step, which belongs to one of its segments."""


class CallCancelled(CallError):
    """The caller went away before the call was committed."""

    reason = "CANCELLED"


class DeadlinePassed(CallError):
    """The deadline passed before the call was committed."""

    reason = "DEADLINE_EXCEEDED"


class Unauthenticated(CallError):
    """The call needs a token, and has none or another one."""

    reason = "UNAUTHENTICATED"
