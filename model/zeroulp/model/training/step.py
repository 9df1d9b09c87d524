"""One step of training: forward, backward, update."""

from __future__ import annotations

from zeroulp.model.composition.language_model import LanguageModel
from zeroulp.model.composition.targets import Targets
from zeroulp.model.composition.text_batch import TextBatch
from zeroulp.model.recording import Recording
from zeroulp.model.tensors import backward
from zeroulp.model.training.adamw import AdamW


def train_step(
    model: LanguageModel, context: Recording, batch: TextBatch, targets: Targets, optimizer: AdamW
) -> float:
    """Move the optimizer's parameters once by the loss of a batch, and return that loss in nats.

    Gradients from before are forgotten. A step that raises moves no parameter: see `LanguageModel.loss` and
    `AdamW.step`.
    """
    optimizer.clear_gradients()
    with context.team.awake():
        loss = model.loss(context, batch, targets)
        backward(loss)
    optimizer.step()
    return loss.item()
