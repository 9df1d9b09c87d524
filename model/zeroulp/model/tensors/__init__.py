"""Values with an identity, a revision and, under recording, a history that gradients go back through."""

from zeroulp.model.tensors.graph import Kept, backward, kept
from zeroulp.model.tensors.node import Node
from zeroulp.model.tensors.tensor import Tensor

__all__ = ["Kept", "Node", "Tensor", "backward", "kept"]
