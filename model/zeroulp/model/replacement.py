"""Other values for all parameters of a model that is in use, or none."""

from __future__ import annotations

from dataclasses import fields

from zeroulp.model.composition.language_model import LanguageModel
from zeroulp.model.configuration import Configuration
from zeroulp.model.errors import UnsupportedModel


class Replacement:
    """The values of ``new`` for the parameters of ``served``: checked when made, in place once published.

    Making it reads every value of ``new`` and touches nothing of ``served``, so any thread may; raises
    ``UnsupportedModel`` naming what differs, or the parameter that holds a NaN or an infinity. Until the
    old values are forgotten, both are in memory.
    """

    def __init__(self, served: LanguageModel, new: LanguageModel) -> None:
        _check_configuration(served.configuration, new.configuration)
        self._moves = []
        for name, node in served.parameters.items():
            other = new.parameters[name]
            if other.shape != node.shape:
                raise UnsupportedModel(f"parameter {name}: shape {other.shape}, {node.shape} is served")
            if not other.is_finite():
                raise UnsupportedModel(f"parameter {name} holds a value that is not finite")
            self._moves.append((node, other.stored))

    def publish(self) -> None:
        """Move every parameter to its new value and the next revision; nothing in here can fail half-way.

        Nodes keep their identity. To be called while nothing computes with the model.
        """
        for node, stored in self._moves:
            node.adopt(stored)


def _check_configuration(served: Configuration, new: Configuration) -> None:
    differing = [
        f"{field.name} is {getattr(new, field.name)!r}, and {getattr(served, field.name)!r} is served"
        for field in fields(Configuration)
        if getattr(new, field.name) != getattr(served, field.name)
    ]
    if differing:
        raise UnsupportedModel(f"the configuration differs: {'; '.join(differing)}")
