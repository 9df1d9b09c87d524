"""The gradient of the tied table, and the two paths that it comes by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from zeroulp.model.boundary.composition import Composition
from zeroulp.model.boundary.fixture import Fixture
from zeroulp.model.kernels.arrays import F64
from zeroulp.model.recording import Recording
from zeroulp.model.tensors import backward


@dataclass(frozen=True, slots=True, eq=False)
class TiedGradient:
    """Gradients of the loss in the table, each ``[V, D]``: in all, through the lookup, through the head."""

    total: F64
    lookup: F64
    head: F64

    @classmethod
    def of(cls, context: Recording, fixture: Fixture) -> TiedGradient:
        """Go back three times: with nothing fixed, with the head's table fixed, with the embeddings fixed."""
        return cls(
            _table_gradient(context, fixture),
            _table_gradient(context, fixture, fixed_head=True),
            _table_gradient(context, fixture, fixed_embeddings=True),
        )

    @property
    def max_partition_error(self) -> float:
        """The largest distance, over all scalars of the table, of the two paths' sum from the total."""
        return float(np.max(np.abs((self.lookup + self.head) - self.total)))


def _table_gradient(context: Recording, fixture: Fixture, **fixed: Any) -> F64:
    table = fixture.model.table
    table.clear_gradient()
    backward(Composition.of(context, fixture, **fixed).loss)
    if table.gradient is None:
        raise RuntimeError("the loss does not depend on the table")
    return table.gradient
