"""One gradient kernel as a job that a team shares.

Filled by the interpreter, for a backward has few and long kernels; ``kernels.shared`` has the rules for
the number of parts.
"""

from __future__ import annotations

import numpy as np

from zeroulp.model.kernels.arrays import F64, I64, Panels
from zeroulp.model.kernels.jit import Part
from zeroulp.model.kernels.parts import JOB_WORDS
from zeroulp.model.kernels.shared import MOST_PARTS
from zeroulp.model.kernels.team import run_jobs

Word = int | float | F64 | I64 | Panels
"""A number, or an array that travels as its address."""


def run(control: I64, part: Part, work: int, most: int, *words: Word) -> None:
    """Run a part's kernel with the ``words`` of its row, cut by its ``work`` into up to ``most`` parts.

    ``work`` counts products or entries, of which a part should have some ten thousand. Raises
    ``ValueError`` for an array that is not contiguous.
    """
    job = np.empty((1, JOB_WORDS), np.int64)
    job[0, 0] = part.address
    job[0, 1] = max(1, min(work >> 14, most, MOST_PARTS))
    for index, word in enumerate(words, start=2):
        job[0, index] = _word(word)
    run_jobs(control, job)


def _word(word: Word) -> int:
    if isinstance(word, np.ndarray):
        require_contiguous(word)
        return word.ctypes.data
    return int(np.float64(word).view(np.int64)) if isinstance(word, float) else int(word)


def require_contiguous(*arrays: F64 | I64 | Panels) -> None:
    """Raise ``ValueError`` for an array with gaps: a kernel that has its address alone would read them."""
    for array in arrays:
        if not array.flags.c_contiguous:
            raise ValueError(f"a kernel's array must be contiguous; this one has strides {array.strides}")
