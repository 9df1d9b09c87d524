"""Just enough of the Dockerfile's grammar to check ours: instructions, continuations, JSON forms."""

from __future__ import annotations

import json
import re
from typing import NamedTuple

from house.tree import ROOT


class Instruction(NamedTuple):
    """One instruction with its continuation lines joined."""

    name: str
    text: str

    def words(self) -> list[str]:
        """Return the words of the JSON form; raises ``ValueError`` on the shell form."""
        parsed = json.loads(self.text[self.text.index("[") :])
        return [str(word) for word in parsed]


def instructions() -> list[Instruction]:
    """Return the Dockerfile's instructions in order."""
    text = re.sub(r"^#.*\n", "", (ROOT / "Dockerfile").read_text(), flags=re.MULTILINE)
    lines = re.sub(r"\\\n\s*", "", text).splitlines()
    parts = [line.split(maxsplit=1) for line in lines if line.strip()]
    return [Instruction(name, text) for name, text in parts]


def only(name: str) -> Instruction:
    """Return the one instruction of that name; raises ``ValueError`` if there is not exactly one."""
    (found,) = [instruction for instruction in instructions() if instruction.name == name]
    return found
