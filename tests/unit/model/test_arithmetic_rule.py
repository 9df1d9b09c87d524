"""No BLAS, no unordered sum, no foreign elementary function on the inference path: by its source."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import zeroulp.model
import zeroulp.server

ROOTS = [Path(str(package.__file__)).parent for package in (zeroulp.model, zeroulp.server)]

PRODUCTS_AND_SUMS = """
    dot vdot inner outer matmul vecdot matvec vecmat einsum tensordot kron trace
    sum nansum cumsum nancumsum prod cumprod mean nanmean average var std norm median
    convolve correlate interp trapezoid logaddexp logaddexp2 reduce accumulate reduceat
    fsum sumprod fma hypot dist polyval
"""
ELEMENTARY = """
    exp exp2 expm1 log log2 log10 log1p pow power float_power cbrt erf erfc gamma lgamma
    sin cos tan asin acos atan atan2 sinh cosh tanh asinh acosh atanh
    arcsin arccos arctan arctan2 arcsinh arccosh arctanh
"""
SUMMING, TRANSCENDENT = {*PRODUCTS_AND_SUMS.split()}, {*ELEMENTARY.split()}
FOREIGN = {"math", "cmath", "np", "numpy", "statistics"}
MODULES = {"scipy", "torch", "jax", "numexpr", "cupy", "statistics", "cmath", "numpy.linalg", "numpy.fft"}
OPTIONS = {"fastmath", "parallel"}

ALLOWED = {
    ("model/parameters.py", "np.prod"): "integers: the size of a shape",
    ("model/parameters.py", "sum"): "integers: scalars and bytes",
    ("model/composition/backbone.py", "sum"): "integers: blocks",
    ("model/composition/layout.py", "sum"): "integers: cells",
    ("model/composition/layout.py", "np.cumsum"): "integers: ends of documents",
    ("model/tensors/graph.py", "sum"): "integers: values that are kept",
    ("model/work.py", "sum"): "integers: visible keys",
    ("model/tracing/model_map.py", "math.prod"): "integers: the size of a shape",
    ("model/tracing/model_map.py", "sum"): "integers: scalars",
    ("model/kernels/elementary_constants.py", "**"): "integers: constants, once, in whole numbers",
    ("model/formats/gguf_tensor.py", "math.prod"): "integers: the size of a shape",
    ("server/engine/step.py", "np.cumsum"): "integers: rows of shares",
    ("server/jobs/score.py", "sum"): "integers: tokens",
    ("server/jobs/scoring.py", "sum"): "integers: tokens of documents, work counters",
    ("server/jobs/generate.py", "sum"): "integers: bytes of stop strings",
    ("server/jobs/trace_plan.py", "sum"): "integers: features of stages",
    ("server/wire/service.py", "sum"): "integers: tokens",
    ("server/wire/answers.py", "sum"): "integers: work counters",
}
"""What looks like a sum or a product of numbers that a logit depends on, and is none."""


def dotted(node: ast.expr) -> str:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return "…"


def forbidden(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield line and name of everything that the arithmetic does not define."""
    for node in ast.walk(tree):
        if isinstance(node, ast.BinOp | ast.AugAssign) and isinstance(node.op, ast.MatMult):
            yield node.lineno, "@"
        elif isinstance(node, ast.BinOp | ast.AugAssign) and isinstance(node.op, ast.Pow):
            left = node.left if isinstance(node, ast.BinOp) else node.target
            right = node.right if isinstance(node, ast.BinOp) else node.value
            if not (is_number(left) and is_number(right)):
                yield node.lineno, "**"
        elif isinstance(node, ast.Attribute):
            name, base = dotted(node), dotted(node.value)
            if node.attr in SUMMING or (node.attr in TRANSCENDENT and base.split(".")[0] in FOREIGN):
                yield node.lineno, name
        elif (
            isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("sum", "pow")
        ):
            yield node.lineno, node.func.id
        elif isinstance(node, ast.keyword) and node.arg in OPTIONS:
            if not (isinstance(node.value, ast.Constant) and node.value.value is False):
                yield node.value.lineno, f"{node.arg}="
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name in MODULES or alias.name.split(".")[0] in MODULES:
                    yield node.lineno, f"import {alias.name}"
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            if node.module in MODULES or node.module.split(".")[0] in MODULES:
                yield node.lineno, f"import {node.module}"
            elif node.module in FOREIGN:
                for alias in node.names:
                    if alias.name in TRANSCENDENT | SUMMING:
                        yield node.lineno, f"import {node.module}.{alias.name}"


def is_number(node: ast.expr) -> bool:
    """Whether it is a literal: a power of two of them is a constant, folded by Python."""
    return isinstance(node, ast.Constant) or (isinstance(node, ast.UnaryOp) and is_number(node.operand))


def findings() -> dict[tuple[str, str], list[int]]:
    found: dict[tuple[str, str], list[int]] = {}
    for root in ROOTS:
        for path in sorted(root.rglob("*.py")):
            for line, name in forbidden(ast.parse(path.read_text())):
                found.setdefault((path.relative_to(root.parent).as_posix(), name), []).append(line)
    return found


def test_the_inference_path_has_none() -> None:
    assert {place: lines for place, lines in findings().items() if place not in ALLOWED} == {}


def test_every_exception_is_still_needed() -> None:
    assert set(ALLOWED) - set(findings()) == set()


def test_the_search_sees_the_source() -> None:
    paths = [path.relative_to(root.parent).as_posix() for root in ROOTS for path in root.rglob("*.py")]
    for name in ("model/kernels/linear.py", "model/operations.py", "server/engine/engine.py"):
        assert name in paths


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("y = x @ w", "@"),
        ("y @= w", "@"),
        ("y = np.dot(x, w)", "np.dot"),
        ("y = x.dot(w)", "x.dot"),
        ("y = f(x).sum()", "….sum"),
        ("y = np.add.reduce(x)", "np.add.reduce"),
        ("y = np.linalg.norm(x)", "np.linalg.norm"),
        ("y = map(np.exp, x)", "np.exp"),
        ("y = math.log1p(x)", "math.log1p"),
        ("y = sum(x)", "sum"),
        ("y = pow(x, 0.5)", "pow"),
        ("y = x ** 2", "**"),
        ("y = 2.0 ** x", "**"),
        ("numba.njit(fastmath=True)(f)", "fastmath="),
        ("numba.njit(parallel=options)(f)", "parallel="),
        ("from math import exp", "import math.exp"),
        ("from numpy.linalg import norm", "import numpy.linalg"),
        ("import scipy.special", "import scipy.special"),
    ],
)
def test_what_is_found(source: str, name: str) -> None:
    assert name in [found for _, found in forbidden(ast.parse(source))]


@pytest.mark.parametrize(
    "source",
    [
        "y = math.sqrt(x)",
        "y = x * w + b / 2.0",
        "from zeroulp.model.kernels.elementary import exp\ny = exp(x)",
        "SHIFT = 2.0**-53",
        "numba.njit(fastmath=False)(f)",
        "y = np.argmax(z)",
        "total += x[i]",
    ],
)
def test_what_is_fine(source: str) -> None:
    assert list(forbidden(ast.parse(source))) == []
