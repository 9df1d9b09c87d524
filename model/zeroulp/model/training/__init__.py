"""Changing a model's parameters by their gradients, in a defined arithmetic."""

from zeroulp.model.training.adamw import AdamW
from zeroulp.model.training.step import train_step

__all__ = ["AdamW", "train_step"]
