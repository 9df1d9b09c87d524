"""Model files of this project's own: a whole model in one safetensors file, read back bit for bit.

Tensors have the parameters' names and shapes, the tied table stands once, and each is stored as F32 where
that is exact and as F64 elsewhere. The metadata holds ``format`` ("zeroulp"), ``format_version`` ("1"),
and as JSON the ``configuration`` and, for a model with text, the ``tokenizer``.
"""

from zeroulp.model.formats.safetensors.checkpoint import SafetensorsCheckpoint
from zeroulp.model.formats.safetensors.writer import save_model

__all__ = ["SafetensorsCheckpoint", "save_model"]
