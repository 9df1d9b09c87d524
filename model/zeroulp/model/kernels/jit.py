"""How a kernel is compiled, and where its machine code is kept between starts."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar, cast

import llvmlite
import numba
import platformdirs
from numba import types
from numba.core import config

Function = TypeVar("Function", bound=Callable[..., Any])


@functools.cache
def code_folder() -> Path:
    """Return the folder for compiled kernels of exactly this source and compiler.

    numba notices an edit of the file that holds a kernel, not of one that it takes an intrinsic or
    another kernel from, and a stale kernel would be a wrong bit. So the folder's name is a digest of
    every kernel source and of the compiler's versions.
    """
    digest = hashlib.sha256(f"{numba.__version__} {llvmlite.__version__}".encode())
    root = Path(__file__).parent
    for source in sorted(root.rglob("*.py")):
        digest.update(source.relative_to(root).as_posix().encode() + b"\0" + source.read_bytes())
    return platformdirs.user_cache_path("zeroulp") / "kernels" / digest.hexdigest()[:16]


@contextmanager
def _kept_in_code_folder() -> Iterator[None]:
    # The locator reads the setting when a function is decorated; other users of numba in the same
    # process keep theirs.
    previous = config.CACHE_DIR
    config.CACHE_DIR = str(code_folder())
    try:
        yield
    finally:
        config.CACHE_DIR = previous


def kernel(function: Function) -> Function:
    """Compile a function that runs without the interpreter's lock; its code is kept between starts."""
    with _kept_in_code_folder():
        # fastmath stays off: no reassociation and no contraction into fused multiply-adds.
        # error_model "numpy" gives IEEE division by zero instead of a Python exception.
        return cast(Function, numba.njit(nogil=True, cache=True, error_model="numpy")(function))


class Part:
    """A kernel ``(row: int64*, part: int64)`` that machine code calls by its address.

    Called that way it is not compiled into its callers, which would each take seconds. It is compiled
    when its address is first asked for.
    """

    def __init__(self, function: Callable[[Any, int], None]) -> None:
        self._function = function

    @functools.cached_property
    def _compiled(self) -> Any:
        signature = types.void(types.CPointer(types.int64), types.int64)
        with _kept_in_code_folder():
            return numba.cfunc(signature, cache=True, error_model="numpy")(self._function)

    @functools.cached_property
    def address(self) -> int:
        """Where the machine code starts."""
        return int(self._compiled.address)
