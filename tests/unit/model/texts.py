"""Batches of documents, their losses, and what a backward pass leaves in a model."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from zeroulp.model.composition.language_model import LanguageModel
from zeroulp.model.composition.targets import Targets
from zeroulp.model.composition.text_batch import TextBatch
from zeroulp.model.configuration import Configuration
from zeroulp.model.context import Execution
from zeroulp.model.recording import Recording
from zeroulp.model.tensors import Tensor, backward

Documents = list[list[int]]


@st.composite
def configurations(draw: st.DrawFn) -> Configuration:
    kv_heads, group = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    return Configuration(
        vocabulary_size=draw(st.integers(2, 40)),
        model_width=kv_heads * group * draw(st.sampled_from([2, 4, 6, 8, 10])),
        heads=kv_heads * group,
        kv_heads=kv_heads,
        feed_forward_width=draw(st.integers(1, 19)),
        layers=draw(st.integers(1, 3)),
        max_positions=64,
        rope_base=draw(st.sampled_from([10000.0, 500.0, 1e6])),
        rms_epsilon=draw(st.sampled_from([1e-6, 1e-5])),
        context_window=draw(st.one_of(st.none(), st.integers(1, 12))),
    )


def documents(c: Configuration, *, most: int, longest: int = 9) -> st.SearchStrategy[Documents]:
    tokens = st.integers(0, c.vocabulary_size - 1)
    return st.lists(st.lists(tokens, min_size=1, max_size=longest), min_size=1, max_size=most)


def drawn_targets(batch: TextBatch, rng: np.random.Generator, vocabulary_size: int) -> Targets:
    """Any targets, some of which count: at least one, and none in a padded cell."""
    T = batch.ids.shape[1]
    there = np.arange(T) < batch.layout.active[:, None]
    valid = there & (rng.random(there.shape) < 0.7)
    valid[0, 0] = True
    return Targets(rng.integers(0, vocabulary_size, there.shape), valid)


def loss_bits(model: LanguageModel, context: Execution[Any], batch: TextBatch, targets: Targets) -> bytes:
    return model.loss(context, batch, targets).values.tobytes()


def back(model: LanguageModel, loss: Tensor) -> dict[str, bytes]:
    """Go back from a loss and return the bits of every parameter's gradient, which is forgotten."""
    backward(loss)
    found = {}
    for name, node in model.parameters.items():
        assert node.gradient is not None, name
        assert node.gradient.shape == node.shape
        found[name] = node.gradient.tobytes()
        node.clear_gradient()
    return found


def trained(
    model: LanguageModel, context: Recording, batch: TextBatch, targets: Targets
) -> tuple[bytes, dict[str, bytes]]:
    """Return the bits of a recorded loss and of all its gradients."""
    loss = model.loss(context, batch, targets)
    return loss.values.tobytes(), back(model, loss)
