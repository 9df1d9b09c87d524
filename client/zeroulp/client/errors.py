"""Every error that the client raises for what happened on the wire.

ZeroulpError
├── RequestRefused                what was asked cannot be done; asking again changes nothing
│   ├── InvalidInput              a field's value is not allowed; ``violations`` name it
│   ├── ContextFull               more positions than the model has; both numbers in ``metadata``
│   ├── SessionUnknown            open it again with its tokens: the continuation is the same bits
│   ├── ParametersChanged         the session was built with other parameters
│   └── Unauthenticated           the call needs a token, and had none or another one
├── TryLater                      the same call may succeed later, after ``retry_after_seconds``
│   ├── SessionBusy               too many calls wait for their turn on the session
│   ├── ResourceExhausted         a limit of the server is reached
│   └── Unavailable               the server is stopping
├── CallCancelled                 the call was given up by its caller; it was not committed
├── DeadlinePassed                the call's deadline passed; it was not committed
├── ServerFailed                  the server's fault
│   ├── NonFinite                 its arithmetic left the finite numbers; nothing was committed
│   └── ProtocolBroken            it answered what its contract does not allow
└── ConnectionFailed              no server answers, or the connection broke

Nothing is tried again silently: whether and when to do so is the caller's decision. Arguments that
cannot be written into a message at all (an id below zero) are a plain ValueError or TypeError.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FieldViolation:
    """One field of a request and what is wrong with it."""

    field: str
    description: str


class ZeroulpError(Exception):
    """Base of all of them.

    ``code`` is the status' name ("OUT_OF_RANGE"); ``reason`` is a name of the proto's ErrorReason
    without its prefix, empty when the status has none; ``retry_after_seconds`` is the server's
    advice, None without one.
    """

    def __init__(
        self,
        message: str,
        *,
        code: str,
        reason: str = "",
        metadata: Mapping[str, str] | None = None,
        violations: tuple[FieldViolation, ...] = (),
        retry_after_seconds: float | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.reason = reason
        self.metadata: Mapping[str, str] = dict(metadata or {})
        self.violations = violations
        self.retry_after_seconds = retry_after_seconds


class RequestRefused(ZeroulpError):
    """What was asked cannot be done; asking again changes nothing."""


class InvalidInput(RequestRefused):
    """A field's value is not allowed."""


class ContextFull(RequestRefused):
    """More positions than the model has."""


class SessionUnknown(RequestRefused):
    """The server has no such session (any more)."""


class ParametersChanged(RequestRefused):
    """The session was built with parameters that have changed since."""


class Unauthenticated(RequestRefused):
    """The call needs a token, and had none or another one."""


class TryLater(ZeroulpError):
    """The same call may succeed later."""


class SessionBusy(TryLater):
    """Too many calls wait for their turn on the session."""


class ResourceExhausted(TryLater):
    """A limit of the server is reached; the reason tells which."""


class Unavailable(TryLater):
    """The server is stopping and takes no new work."""


class CallCancelled(ZeroulpError):
    """The call was given up by its caller."""


class DeadlinePassed(ZeroulpError):
    """The call's deadline passed."""


class ServerFailed(ZeroulpError):
    """The server's fault; ``metadata["correlation_id"]``, when there, is in its log too."""


class NonFinite(ServerFailed):
    """A NaN or an infinity appeared; ``metadata`` has the layer and the stage."""


class ProtocolBroken(ServerFailed):
    """The server answered what its contract does not allow."""


class ConnectionFailed(ZeroulpError):
    """No server answers at the target, or the connection to it broke."""
