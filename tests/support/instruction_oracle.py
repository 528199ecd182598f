"""Oracles of the instructions: Python's numbers, one element at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mlusim.cores.instructions.c_signatures import CSignature, c_signatures_of
from mlusim.cores.instructions.table import INSTRUCTIONS
from mlusim.dtypes import BFLOAT16, FLOAT16, FLOAT32, dtype_of, is_float

Array = np.ndarray[Any, Any]
rng = np.random.default_rng(20)


def c_signature(intrinsic: str, count: int) -> CSignature:
    """The signature of an intrinsic with that many arguments."""
    return next(known for known in c_signatures_of(intrinsic) if known.fewest <= count <= len(known.arguments))


def values(count: int, dtype: Any, *, low: float = -8, high: float = 8) -> Array:
    """Numbers of a type: halves of integers for floats, so that sums and products are exact in float32."""
    dtype = dtype_of(dtype)
    if is_float(dtype):
        return (rng.integers(int(low * 2), int(high * 2), count) / 2).astype(dtype)
    if dtype.kind == "u":
        return rng.integers(0, 16, count).astype(dtype)
    return rng.integers(int(low), int(high), count).astype(dtype)


def run(name: str, result: Array, *sources: Any, **attributes: Any) -> Array:
    """Compute into `result`, without NumPy's warnings, as the pipe does; sources as they come."""
    entry = INSTRUCTIONS[name]
    with np.errstate(all="ignore"):
        entry.compute(result, *sources, **{**entry.defaults, **attributes})
    return result


def close(actual: Array, expected: Any, dtype: Any) -> None:
    """Within two units in the last place of the type."""
    steps = {FLOAT16: 2e-3, BFLOAT16: 1.6e-2, FLOAT32: 3e-7}[dtype_of(dtype)]
    np.testing.assert_allclose(actual.astype(np.float64), expected, rtol=steps, atol=steps * 1e-2)


EXACT: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "maxequal": max,
    "minequal": min,
    "maximum": max,
    "minimum": min,
    "nan_maximum": max,
    "nan_minimum": min,
    "lt": lambda a, b: int(a < b),
    "le": lambda a, b: int(a <= b),
    "gt": lambda a, b: int(a > b),
    "ge": lambda a, b: int(a >= b),
    "eq": lambda a, b: int(a == b),
    "ne": lambda a, b: int(a != b),
    "and_": lambda a, b: int(bool(a) and bool(b)),
    "or_": lambda a, b: int(bool(a) or bool(b)),
    "xor": lambda a, b: int(bool(a) != bool(b)),
}
BITINDEX = {f"{name}_bitindex": EXACT[name] for name in ("lt", "le", "gt", "ge", "eq", "ne")}
