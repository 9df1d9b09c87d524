"""The reference fixture: a small seeded model, a text of two letters, and its next tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from zeroulp.model.composition.language_model import LanguageModel
from zeroulp.model.composition.targets import Targets
from zeroulp.model.composition.text_batch import TextBatch
from zeroulp.model.initialisation import initialised
from zeroulp.model.library.catalogue import BUILT_IN
from zeroulp.model.parameters import ParameterInventory
from zeroulp.model.text import DocumentBpe

NAME: Final = "boundary-39"
TEXT: Final = "ab"


@dataclass(frozen=True, slots=True, eq=False)
class Fixture:
    """A model with parameters of its own, a batch of one row, and a target for each of its cells."""

    model: LanguageModel
    batch: TextBatch
    targets: Targets

    @classmethod
    def new(cls) -> Fixture:
        """Return the fixture with fresh parameters: equal values, but other nodes each time."""
        found = BUILT_IN[NAME]
        values = initialised(found.configuration, found.seed)
        document = DocumentBpe.bytes_only().encode_document(TEXT)
        targets = np.array([document[1:]], np.int64)  # [1, T]
        return cls(
            LanguageModel(found.configuration, ParameterInventory(found.configuration, values)),
            TextBatch.of([document[:-1]]),
            Targets(targets, np.ones(targets.shape, np.bool_)),
        )

    @property
    def ids(self) -> list[int]:
        """The input's token ids."""
        ids: list[int] = self.batch.ids[0].tolist()
        return ids
