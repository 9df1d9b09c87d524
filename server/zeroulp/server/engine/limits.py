"""The bounds that the engine holds every call to."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Told by GetModel; a refusal names the limit and the request's own number."""

    max_sessions: int = 1024
    max_calls: int = 128
    """Calls in the engine, waiting or running."""
    max_waiting_per_session: int = 8
    """Calls that wait for their turn on one session."""
    max_message_bytes: int = 256 * 1024 * 1024
    """Room for about 650 full rows of logits of a 49,152-token vocabulary."""
    cache_bytes: int = 4 * 1024**3
    """Bytes of cache blocks, keys, values and rows of H; a part that no session has used takes no memory."""
    max_top_entries: int = 100
    max_stop_strings: int = 16
    max_stop_bytes: int = 1024
    max_score_sequences: int = 256
    max_trace_patterns: int = 64
    max_trace_pattern_bytes: int = 256
    """Bytes of one name pattern of a Trace; the longest name has about 30."""
    max_trace_bytes: int = 256 * 1024 * 1024
    """Bytes of values that a trace may keep, and that all traces under way may keep together.

    Room for all stages of about 90 positions of a model with 135 million parameters.
    """
    trace_part_bytes: int = 1024 * 1024
    """Bytes of values in one message of a Trace: well below the 4 MiB that gRPC clients take by default."""
    step_rows: int = 512
    """Rows of one step at the most, when one call is alone; more rows use each weight more often."""
    shared_step_rows: int = 128
    """Rows of one step at the most beside others: what a neighbour waits for while a long prompt is read."""
    generate_ahead: int = 16
    """Tokens that a generation commits ahead of its reader, before the transport's own buffers."""
