"""The elementary functions, one value at a time, by MPFR at 53 bits: correctly rounded, and none of ours."""

from __future__ import annotations

from naive.elementary_reference import BINARY64


def exp(x: float) -> float:
    return float(BINARY64.exp(x))


def log(x: float) -> float:
    return float(BINARY64.log(x))


def log1p(x: float) -> float:
    return float(BINARY64.log1p(x))


def sin(x: float) -> float:
    return float(BINARY64.sin(x))


def cos(x: float) -> float:
    return float(BINARY64.cos(x))


def power(x: float, y: float) -> float:
    return float(BINARY64.pow(x, y))
