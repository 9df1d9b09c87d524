"""One decoder block: attention and feed-forward, each on a normalised residual stream."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from zeroulp.model import derivatives, operations
from zeroulp.model.composition.segment import Segment
from zeroulp.model.configuration import Configuration
from zeroulp.model.context import Execution, Rows
from zeroulp.model.kernels.arrays import F64
from zeroulp.model.kernels.shared import attention
from zeroulp.model.parameters import Parameter


class Block:
    """Borrows one layer's parameters; the same code runs full, chunked, cached and recorded."""

    def __init__(self, configuration: Configuration, parameters: Mapping[str, Parameter], layer: int) -> None:
        def borrowed(name: str) -> Parameter:
            return parameters[f"blocks.{layer}.{name}"]

        self.configuration = configuration
        self.layer = layer
        self.epsilon = configuration.rms_epsilon
        self.scale = 1.0 / math.sqrt(configuration.head_width)
        self.attention_norm = borrowed("attention_norm.gain")
        self.query = borrowed("attention.query.weight")
        self.key = borrowed("attention.key.weight")
        self.value = borrowed("attention.value.weight")
        self.output = borrowed("attention.output.weight")
        self.ffn_norm = borrowed("ffn_norm.gain")
        self.gate = borrowed("ffn.gate.weight")
        self.up = borrowed("ffn.up.weight")
        self.down = borrowed("ffn.down.weight")
        attention = (self.attention_norm, self.query, self.key, self.value, self.output)
        self.parameters = (*attention, self.ffn_norm, self.gate, self.up, self.down)
        """The borrowed nodes, in initialisation order, the norms before what they feed."""

    def forward(
        self, context: Execution[Rows], x: Rows, turns: tuple[F64, F64], segments: Sequence[Segment]
    ) -> Rows:
        """Return the residual stream ``[rows, D]`` after this block, and hand each segment its ticket."""
        branch = context.dropout(self._attention_branch(context, x, turns, segments))
        x = operations.residual(context, x, branch)
        context.observe(self.layer, "attention_residual", x)
        x = operations.residual(context, x, context.dropout(self._feed_forward_branch(context, x)))
        context.observe(self.layer, "ffn_residual", x)
        return x

    def _attention_branch(
        self, context: Execution[Rows], x: Rows, turns: tuple[F64, F64], segments: Sequence[Segment]
    ) -> Rows:
        h = operations.rms_norm(context, x, self.attention_norm, self.epsilon)
        context.observe(self.layer, "attention_norm", h)
        # q [rows, heads * head_width], k and v [rows, kv_width]
        q, k, v = operations.linear(context, h, self.query, self.key, self.value)
        context.observe(self.layer, "query", q)
        context.observe(self.layer, "key", k)
        context.observe(self.layer, "value", v)
        q, k = operations.rotate(context, q, *turns), operations.rotate(context, k, *turns)
        context.observe(self.layer, "query_rope", q)
        context.observe(self.layer, "key_rope", k)
        mixed = self._attend(context, q, k, v, segments)
        context.observe(self.layer, "attention", mixed)
        (branch,) = operations.linear(context, mixed, self.output)
        context.observe(self.layer, "attention_output", branch)
        return branch

    def _attend(
        self, context: Execution[Rows], q: Rows, k: Rows, v: Rows, segments: Sequence[Segment]
    ) -> Rows:
        """Prepare each segment's rows in its cache and attend over that cache and the rows."""
        queries, keys, values = context.values(q), context.values(k), context.values(v)
        mixed = context.workspace.rows(*queries.shape)
        visits: list[derivatives.Visit] = []
        start = 0
        for segment in segments:
            rows = slice(start, start := start + segment.rows)
            cache = segment.prepare(self.layer, keys[rows], values[rows])
            finite = attention(
                context.team.control,
                queries[rows],
                segment.first,
                segment.last,
                cache.sequence.table,
                *cache.blocks,
                self.scale,
                mixed[rows],
            )
            if not finite:
                # An infinite score can vanish in the softmax; a poisoned row cannot pass unseen.
                mixed[rows] = np.nan
            visits.append((rows, segment.first, segment.last))
        head_width = self.configuration.head_width
        return context.result(mixed, derivatives.of_attention, q, k, v, visits, head_width, self.scale)

    def _feed_forward_branch(self, context: Execution[Rows], x: Rows) -> Rows:
        h = operations.rms_norm(context, x, self.ffn_norm, self.epsilon)
        context.observe(self.layer, "ffn_norm", h)
        gate, up = operations.linear(context, h, self.gate, self.up)  # each [rows, F]
        context.observe(self.layer, "gate", gate)
        context.observe(self.layer, "up", up)
        hidden = operations.swiglu(context, gate, up)
        context.observe(self.layer, "swiglu", hidden)
        (branch,) = operations.linear(context, hidden, self.down)  # [rows, D]
        context.observe(self.layer, "down", branch)
        return branch
