"""The array types that kernels exchange."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

F64: TypeAlias = NDArray[np.float64]
I64: TypeAlias = NDArray[np.int64]
Panels: TypeAlias = (
    NDArray[np.float64] | NDArray[np.float32] | NDArray[np.uint16] | NDArray[np.uint32] | NDArray[np.int32]
)
