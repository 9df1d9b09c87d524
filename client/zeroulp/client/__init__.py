"""The client library: typed calls to a zeroulp daemon.

Knows only the wire: neither the model nor the server, and no array library. Logits come as bytes.
Only ``zeroulp.client.trace_files``, which nothing else imports at its start, needs more.
"""

from zeroulp.client.audit import Audit, Difference
from zeroulp.client.bits import bits_of, differing_bits
from zeroulp.client.client import Client
from zeroulp.client.commit import Commit, SessionEnd, SessionState, Truncation
from zeroulp.client.errors import (
    CallCancelled,
    ConnectionFailed,
    ContextFull,
    DeadlinePassed,
    FieldViolation,
    InvalidInput,
    NonFinite,
    ParametersChanged,
    ProtocolBroken,
    RequestRefused,
    ResourceExhausted,
    ServerFailed,
    SessionBusy,
    SessionUnknown,
    TryLater,
    Unauthenticated,
    Unavailable,
    ZeroulpError,
)
from zeroulp.client.finished import Finished, FinishReason
from zeroulp.client.generate_request import GenerateOptions
from zeroulp.client.generation import Generation
from zeroulp.client.logits import Logits, LogitsScope
from zeroulp.client.model import Limits, Model, ModelConfiguration
from zeroulp.client.model_map import ModelMap, Module, ModuleOutput, SharedWeight
from zeroulp.client.parameter import ParameterInfo
from zeroulp.client.prompt import Chat, ChatMessage, Prompt, Tokens
from zeroulp.client.reloaded_model import ReloadedModel
from zeroulp.client.sampling import GREEDY, Sampling
from zeroulp.client.score import ScoredToken, Scores, ScoreSequence, SequenceScore
from zeroulp.client.session import OpenedSession, Session
from zeroulp.client.token import Token
from zeroulp.client.top_entries import TokenLogProbability, TopEntries
from zeroulp.client.trace import TensorInfo, Trace
from zeroulp.client.trace_tensor import SampleRow, TraceTensor
from zeroulp.client.work import Work

__all__ = [
    "GREEDY",
    "Audit",
    "CallCancelled",
    "Chat",
    "ChatMessage",
    "Client",
    "Commit",
    "ConnectionFailed",
    "ContextFull",
    "DeadlinePassed",
    "Difference",
    "FieldViolation",
    "FinishReason",
    "Finished",
    "GenerateOptions",
    "Generation",
    "InvalidInput",
    "Limits",
    "Logits",
    "LogitsScope",
    "Model",
    "ModelConfiguration",
    "ModelMap",
    "Module",
    "ModuleOutput",
    "NonFinite",
    "OpenedSession",
    "ParameterInfo",
    "ParametersChanged",
    "Prompt",
    "ProtocolBroken",
    "ReloadedModel",
    "RequestRefused",
    "ResourceExhausted",
    "SampleRow",
    "Sampling",
    "ScoreSequence",
    "ScoredToken",
    "Scores",
    "SequenceScore",
    "ServerFailed",
    "Session",
    "SessionBusy",
    "SessionEnd",
    "SessionState",
    "SessionUnknown",
    "SharedWeight",
    "TensorInfo",
    "Token",
    "TokenLogProbability",
    "Tokens",
    "TopEntries",
    "Trace",
    "TraceTensor",
    "Truncation",
    "TryLater",
    "Unauthenticated",
    "Unavailable",
    "Work",
    "ZeroulpError",
    "bits_of",
    "differing_bits",
]
