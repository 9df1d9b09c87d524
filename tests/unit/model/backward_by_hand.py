"""A whole model's gradients, put together from those of its operations: every step written out once.

The forward keeps what the backward needs. Head and lookup both go back into the one table.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from zeroulp.model import gradients
from zeroulp.model.attention_gradients import attention
from zeroulp.model.composition.language_model import LanguageModel
from zeroulp.model.kernels import lookup, shared
from zeroulp.model.kernels.arrays import F64, I64
from zeroulp.model.kernels.cache_rows import BLOCK, layer_blocks, store_rows
from zeroulp.model.kernels.rope import rope_frequencies, rope_turns
from zeroulp.model.loss import mean_nll
from zeroulp.model.packing import PackedMatrix
from zeroulp.model.parameters import TABLE


@dataclass
class Kept:
    """What a block's forward leaves for its backward."""

    x: F64
    n: F64
    q: F64
    k: F64
    v: F64
    mixed: F64
    middle: F64
    m: F64
    gate: F64
    up: F64
    hidden: F64


class ByHand:
    def __init__(
        self, model: LanguageModel, control: I64, ids: Sequence[int], targets: Sequence[int]
    ) -> None:
        self.c, self.parameters, self.control = model.configuration, model.parameters, control
        self.ids, self.targets = np.array(ids), np.array(targets)
        rows, pairs = len(ids), self.c.head_width // 2
        self.first = np.array([self.c.first_visible(t) for t in range(rows)], np.int64)
        self.last = np.arange(1, rows + 1)
        frequencies = np.empty(pairs)
        rope_frequencies(self.c.rope_base, self.c.head_width, frequencies)
        self.turns = np.empty((rows, pairs)), np.empty((rows, pairs))
        rope_turns(np.arange(rows), frequencies, *self.turns)
        self.scale = 1.0 / math.sqrt(self.c.head_width)
        self.found: dict[str, F64] = {}

    def run(self) -> tuple[float, dict[str, F64]]:
        """Return the loss and the gradient of each parameter."""
        table, valid = self.parameters[TABLE].matrix, np.ones(len(self.ids), bool)
        x = np.empty((len(self.ids), self.c.model_width))
        lookup.lookup(table.panels, self.ids, x)
        kept = []
        for layer in range(self.c.layers):
            block, x = self._block(layer, x)
            kept.append(block)
        h = self._norm(x, "final_norm.gain")
        z = self._linear(h, table)
        loss = mean_nll(self.control, z, self.targets, valid)
        dz = gradients.mean_nll(self.control, z, self.targets, valid, 1.0)
        head = gradients.linear_weight(self.control, dz, h)
        dx = self._norm_back(x, "final_norm.gain", gradients.linear_input(self.control, dz, table))
        for layer in reversed(range(self.c.layers)):
            dx = self._block_back(layer, kept[layer], dx)
        found = gradients.embedding_weight(self.control, self.ids, dx, self.c.vocabulary_size)
        gradients.add_into(self.control, found, head)
        return loss, {**self.found, TABLE: found}

    def _matrix(self, name: str) -> PackedMatrix:
        return self.parameters[name].matrix

    def _linear(self, x: F64, w: PackedMatrix) -> F64:
        packed, y = np.empty_like(x), np.empty((len(x), w.width))
        shared.pack_rows(self.control, x, packed)
        shared.linear(self.control, x, packed, [(w.panels, w.width)], [y])
        return y

    def _linear_back(self, x: F64, name: str, dy: F64) -> F64:
        self.found[name] = gradients.linear_weight(self.control, x, dy)
        return gradients.linear_input(self.control, dy, self._matrix(name))

    def _norm(self, x: F64, name: str) -> F64:
        y = np.empty_like(x)
        shared.rms_norm(self.control, x, self.parameters[name].vector, self.c.rms_epsilon, y)
        return y

    def _norm_back(self, x: F64, name: str, dy: F64) -> F64:
        gain, epsilon = self.parameters[name].vector, self.c.rms_epsilon
        dx, self.found[name] = gradients.rms_norm(self.control, x, gain, epsilon, dy)
        return dx

    def _block(self, layer: int, x: F64) -> tuple[Kept, F64]:
        b = f"blocks.{layer}."
        n = self._norm(x, b + "attention_norm.gain")
        q, k, v = (
            self._linear(n, self._matrix(f"{b}attention.{w}.weight")) for w in ("query", "key", "value")
        )
        q, k = self._turned(q), self._turned(k)
        mixed = self._attend(q, k, v)
        middle = x + self._linear(mixed, self._matrix(b + "attention.output.weight"))
        m = self._norm(middle, b + "ffn_norm.gain")
        gate, up = (self._linear(m, self._matrix(f"{b}ffn.{w}.weight")) for w in ("gate", "up"))
        hidden = np.empty_like(gate)
        shared.swiglu(self.control, gate, up, hidden)
        after = middle + self._linear(hidden, self._matrix(b + "ffn.down.weight"))
        return Kept(x, n, q, k, v, mixed, middle, m, gate, up, hidden), after

    def _turned(self, x: F64) -> F64:
        y = np.empty_like(x)
        shared.rotate(self.control, x, *self.turns, y)
        return y

    def _attend(self, q: F64, k: F64, v: F64) -> F64:
        table, mixed = np.arange(-(-len(q) // BLOCK)), np.empty_like(q)
        keys, values = layer_blocks(table.size, self.c.kv_heads, self.c.head_width)
        store_rows(k, v, 0, table, keys, values)
        shared.attention(self.control, q, self.first, self.last, table, keys, values, self.scale, mixed)
        return mixed

    def _block_back(self, layer: int, kept: Kept, dy: F64) -> F64:
        b, control = f"blocks.{layer}.", self.control
        dhidden = self._linear_back(kept.hidden, b + "ffn.down.weight", dy)
        dgate, dup = gradients.swiglu(control, kept.gate, kept.up, dhidden)
        dm = self._linear_back(kept.m, b + "ffn.gate.weight", dgate)
        dm += self._linear_back(kept.m, b + "ffn.up.weight", dup)
        dmiddle = dy + self._norm_back(kept.middle, b + "ffn_norm.gain", dm)
        dmixed = self._linear_back(kept.mixed, b + "attention.output.weight", dmiddle)
        rows = kept.q, kept.k, kept.v, self.c.head_width, self.first, self.last
        dq, dk, dv = attention(control, *rows, self.scale, dmixed)
        dq, dk = (gradients.rotate(control, x, *self.turns) for x in (dq, dk))
        dn = self._linear_back(kept.n, b + "attention.query.weight", dq)
        dn += self._linear_back(kept.n, b + "attention.key.weight", dk)
        dn += self._linear_back(kept.n, b + "attention.value.weight", dv)
        return dmiddle + self._norm_back(kept.x, b + "attention_norm.gain", dn)
