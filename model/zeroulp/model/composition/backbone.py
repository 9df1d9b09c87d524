"""The causal backbone: blocks and final norm over vectors of any source."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import fields
from functools import partial
from typing import Any

import numpy as np

from zeroulp.model import operations
from zeroulp.model.cache.pool import BlockPool, blocks_for
from zeroulp.model.cache.sequence_cache import SequenceCache
from zeroulp.model.cache.transaction import Transaction
from zeroulp.model.composition.block import Block
from zeroulp.model.composition.finite import require_finite
from zeroulp.model.composition.layout import SequenceLayout
from zeroulp.model.composition.prepared import PreparedInput
from zeroulp.model.composition.segment import Segment, segments_of
from zeroulp.model.configuration import Configuration
from zeroulp.model.context import Execution, NoGrad, Rows
from zeroulp.model.errors import ComponentMismatch
from zeroulp.model.kernels.arrays import F64, I64
from zeroulp.model.kernels.elementwise import first_non_finite_row
from zeroulp.model.kernels.rope import rope_frequencies, rope_turns
from zeroulp.model.parameters import Parameter
from zeroulp.model.tensors.tensor import Tensor

Rooms = Callable[[], Any]
"""Opens the segments whose caches a block writes to, as a context manager."""


class DecoderBackbone:
    """Borrows blocks and final norm; owns no encoder, no table and no cache.

    Raises ``ComponentMismatch`` for a block or norm that was not made for ``configuration``.
    """

    def __init__(self, configuration: Configuration, blocks: Sequence[Block], final_norm: Parameter) -> None:
        _check_components(configuration, blocks, final_norm)
        self.configuration = configuration
        self.blocks = tuple(blocks)
        self.final_norm = final_norm
        self.nodes = (*(node for block in blocks for node in block.parameters), final_norm)
        """Every parameter that H depends on beside the vectors."""
        self.frequencies: F64 = np.empty(configuration.head_width // 2)
        rope_frequencies(configuration.rope_base, configuration.head_width, self.frequencies)

    def forward(self, context: Execution[Any], prepared: PreparedInput) -> Tensor:
        """Return ``H [B, T, D]`` of a full pass; cells that are not there in the layout are +0.0.

        Raises ``InputRefused`` before any block runs, and ``NonFinite``.
        """
        prepared.check(self, context)
        layout = prepared.layout
        x = operations.to_rows(context, prepared.embeddings, layout.cells)  # [active cells, D]
        positions = layout.positions.reshape(-1)[layout.cells]
        h = self._run(context, x, positions, partial(self._rooms_for, layout))
        return operations.from_rows(context, h, layout.cells, *layout.shape)

    def extend(
        self, context: NoGrad, inputs: Sequence[PreparedInput], transactions: Sequence[Transaction]
    ) -> F64:
        """Return ``H [rows, D]`` for the next rows of several sequences, each ``[1, n, D]``.

        Each transaction gets its rows' tickets. No graph can be behind the result. Raises ``InputRefused``
        before any block runs, and ``NonFinite``, with no row published.
        """
        segments = []
        for prepared, transaction in zip(inputs, transactions, strict=True):
            prepared.check(self, context)
            transaction.cache.check_owner(self.nodes)
            segments += segments_of(self.configuration, prepared.layout, [transaction])
        D = self.configuration.model_width
        rows = [context.enter(prepared.embeddings).reshape(-1, D) for prepared in inputs]
        x = rows[0] if len(rows) == 1 else np.concatenate(rows)  # [rows, D]
        positions = np.concatenate([segment.positions for segment in segments])  # [rows]
        return self._run(context, x, positions, partial(nullcontext, segments))

    def _run(self, context: Execution[Rows], x: Rows, positions: I64, rooms: Rooms) -> Rows:
        """Run the one block loop: full, chunked, cached and recorded execution go through it."""
        pairs = self.frequencies.size
        require_finite(None, "embedding", context.values(x))
        context.observe(None, "embedding", x)
        turns = np.empty((positions.size, pairs)), np.empty((positions.size, pairs))
        rope_turns(positions, self.frequencies, *turns)  # each [rows, head_width / 2]
        for block in self.blocks:
            context.check()
            step = partial(_step, block, turns, rooms)
            again = context.again()
            after = context.through(step, x, block.parameters)
            if first_non_finite_row(context.values(after)) < after.shape[0]:
                # Rare: run the block once more, watched, to name the stage. The bits are the same.
                step(again.observed_by(require_finite), x)
            x = after
        h = operations.rms_norm(context, x, self.final_norm, self.configuration.rms_epsilon)
        h = context.own(h)
        require_finite(None, "final_norm", context.values(h))
        context.observe(None, "final_norm", h)
        return h

    @contextmanager
    def _rooms_for(self, layout: SequenceLayout) -> Iterator[list[Segment]]:
        """Open caches that last for one block of a full pass."""
        counts = [int(count) for count in layout.active]
        pool = BlockPool(self.configuration, sum(map(blocks_for, counts)))
        with ExitStack() as stack:
            transactions = [
                stack.enter_context(Transaction(SequenceCache(pool, self.nodes, len(self.blocks)), count))
                for count in counts
            ]
            yield segments_of(self.configuration, layout, transactions)


def _step(block: Block, turns: tuple[F64, F64], rooms: Rooms, context: Execution[Rows], x: Rows) -> Rows:
    with rooms() as segments:
        return block.forward(context, x, turns, segments)


def _check_components(configuration: Configuration, blocks: Sequence[Block], final_norm: Parameter) -> None:
    if len(blocks) != configuration.layers:
        raise ComponentMismatch(
            f"{len(blocks)} blocks were given; the configuration has {configuration.layers}"
        )
    shapes = configuration.parameter_shapes()
    for layer, block in enumerate(blocks):
        if block.layer != layer:
            raise ComponentMismatch(f"block {layer} was made as layer {block.layer}")
        for field in fields(configuration):
            wanted, given = getattr(configuration, field.name), getattr(block.configuration, field.name)
            if field.name not in ("vocabulary_size", "layers") and given != wanted:
                raise ComponentMismatch(f"block {layer} was made for {field.name} {given}, not {wanted}")
        names = [name for name in shapes if name.startswith(f"blocks.{layer}.")]
        for name, node in zip(names, block.parameters, strict=True):
            _check_shape(name, node, shapes[name])
    _check_shape("final_norm.gain", final_norm, shapes["final_norm.gain"])


def _check_shape(name: str, node: Parameter, shape: tuple[int, ...]) -> None:
    if node.shape != shape:
        raise ComponentMismatch(f"{name} has the shape {list(node.shape)}; {list(shape)} is needed")
