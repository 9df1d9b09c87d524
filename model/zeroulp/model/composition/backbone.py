"""The causal backbone: blocks and final norm over vectors of any source."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from zeroulp.model import operations
from zeroulp.model.composition.block import Block
from zeroulp.model.composition.finite import require_finite
from zeroulp.model.composition.segment import Segment
from zeroulp.model.configuration import Configuration
from zeroulp.model.context import NoGrad
from zeroulp.model.kernels.arrays import F64
from zeroulp.model.kernels.elementwise import first_non_finite_row
from zeroulp.model.kernels.rope import rope_frequencies, rope_turns
from zeroulp.model.parameters import Parameter


class DecoderBackbone:
    """Borrows blocks and final norm; owns no encoder, no table and no cache."""

    def __init__(self, configuration: Configuration, blocks: Sequence[Block], final_norm: Parameter) -> None:
        self.configuration = configuration
        self.blocks = tuple(blocks)
        self.final_norm = final_norm
        self.frequencies: F64 = np.empty(configuration.head_width // 2)
        rope_frequencies(configuration.rope_base, configuration.head_width, self.frequencies)

    def forward(self, context: NoGrad, x: F64, segments: Sequence[Segment]) -> F64:
        """Return ``H [rows, D]`` for ``X [rows, D]``; each segment's transaction gets its rows' tickets.

        The one block loop: full, chunked and cached execution differ in their segments only. Raises
        ``NonFinite``, with no row published, and ``ValueError`` for vectors of another width.
        """
        D = self.configuration.model_width
        if x.shape[1] != D:
            raise ValueError(f"vectors of width {x.shape[1]} were given; the backbone takes {D}")
        positions = np.concatenate([segment.positions for segment in segments])  # [rows]
        turns = (
            np.empty((positions.size, self.frequencies.size)),
            np.empty((positions.size, self.frequencies.size)),
        )
        rope_turns(positions, self.frequencies, *turns)  # each [rows, head_width / 2]
        for block in self.blocks:
            context.check()
            context.workspace.turn()
            after = block.forward(context, x, turns, segments)
            if first_non_finite_row(after) < len(after):
                # Rare: run the block once more, watched, to name the stage. The bits are the same.
                block.forward(context.observed_by(require_finite), x, turns, segments)
            x = after
        # a copy: H leaves the backbone, the workspace is used again
        h = operations.rms_norm(context, x, self.final_norm, self.configuration.rms_epsilon).copy()
        require_finite(None, "final_norm", h)
        context.observe(None, "final_norm", h)
        return h
