"""The shape of a model: everything but its parameters that a logit depends on."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from zeroulp.model.errors import UnsupportedModel


@dataclass(frozen=True, slots=True)
class Configuration:
    """Sizes and constants of a decoder language model with one tied table.

    Raises ``UnsupportedModel`` at construction, naming the field, its value and what is allowed.
    """

    vocabulary_size: int
    model_width: int
    heads: int
    kv_heads: int
    feed_forward_width: int
    layers: int
    max_positions: int
    rope_base: float
    rms_epsilon: float
    context_window: int | None = None

    def __post_init__(self) -> None:
        for field in fields(self):
            if field.type == "int" and getattr(self, field.name) < 1:
                self._refuse(field.name, "must be at least 1")
        if self.context_window is not None and self.context_window < 1:
            self._refuse("context_window", "must be at least 1, or absent for full attention")
        if self.model_width % self.heads:
            self._refuse("model_width", f"must be a multiple of heads ({self.heads})")
        if self.heads % self.kv_heads:
            self._refuse("kv_heads", f"must divide heads ({self.heads})")
        if self.head_width % 2:
            self._refuse("model_width", "must give an even head width, since RoPE turns pairs")
        for name in ("rope_base", "rms_epsilon"):
            if not (math.isfinite(getattr(self, name)) and getattr(self, name) > 0.0):
                self._refuse(name, "must be finite and positive")

    def _refuse(self, name: str, rule: str) -> None:
        raise UnsupportedModel(f"configuration: {name} is {getattr(self, name)!r}; it {rule}")

    @property
    def head_width(self) -> int:
        """Features of one attention head."""
        return self.model_width // self.heads

    @property
    def kv_width(self) -> int:
        """Features of one position's keys (and of its values) over all key/value heads."""
        return self.kv_heads * self.head_width

    @property
    def group(self) -> int:
        """Query heads that read one key/value head."""
        return self.heads // self.kv_heads

    def first_visible(self, position: int) -> int:
        """Return the first key position that a query at ``position`` attends to."""
        if self.context_window is None:
            return 0
        return max(0, position - self.context_window + 1)

    def parameter_shapes(self) -> dict[str, tuple[int, ...]]:
        """Return every parameter's name and shape, in the order of a seeded initialisation.

        Matrices are ``[in, out]``, the table ``[vocabulary, width]``, gains ``[width]``.
        """
        D, F = self.model_width, self.feed_forward_width
        shapes: dict[str, tuple[int, ...]] = {"token_embedding.weight": (self.vocabulary_size, D)}
        for layer in range(self.layers):
            block = f"blocks.{layer}."
            shapes[block + "attention_norm.gain"] = (D,)
            shapes[block + "attention.query.weight"] = (D, D)
            shapes[block + "attention.key.weight"] = (D, self.kv_width)
            shapes[block + "attention.value.weight"] = (D, self.kv_width)
            shapes[block + "attention.output.weight"] = (D, D)
            shapes[block + "ffn_norm.gain"] = (D,)
            shapes[block + "ffn.gate.weight"] = (D, F)
            shapes[block + "ffn.up.weight"] = (D, F)
            shapes[block + "ffn.down.weight"] = (F, D)
        shapes["final_norm.gain"] = (D,)
        return shapes
