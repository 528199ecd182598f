"""Arithmetic that rounds down, up or to zero, compared with exact rational arithmetic."""

from __future__ import annotations

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from instruction_oracle import run
from rounding_oracle import MODES, OPERATIONS, operands, rounded

TYPES = (np.float16, np.float32, ml_dtypes.bfloat16)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("kind", TYPES)
def test_arithmetic_rounds_the_exact_result_once(name: str, kind: type, mode: str) -> None:
    a, b = operands(kind, 200)
    expected = [
        rounded(OPERATIONS[name](Fraction(float(x)), Fraction(float(y))), mode, kind) for x, y in zip(a, b, strict=True)
    ]
    np.testing.assert_array_equal(run(f"{name}_{mode}", np.empty(200, kind), a, b).astype(float), expected)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", TYPES)
def test_reciprocals(kind: type, mode: str) -> None:
    a, _ = operands(kind, 200)
    expected = [rounded(1 / Fraction(float(x)), mode, kind) for x in a]
    np.testing.assert_array_equal(run(f"recip_{mode}", np.empty(200, kind), a).astype(float), expected)


@pytest.mark.parametrize("mode", MODES)
def test_infinities_and_nan_are_those_of_ieee_arithmetic(mode: str) -> None:
    inf, nan = np.inf, np.nan
    a, b = np.array([inf, inf, -inf, 1, 0, nan, 5], np.float32), np.array([1, -inf, 2, 0, 0, 1, inf], np.float32)
    with np.errstate(all="ignore"):
        for name, wanted in (("add", a + b), ("sub", a - b), ("mul", a * b), ("div", a / b)):
            np.testing.assert_array_equal(run(f"{name}_{mode}", np.empty(7, np.float32), a, b), wanted)
