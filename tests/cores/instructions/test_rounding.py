"""Arithmetic that rounds down, up or to zero, compared with exact rational arithmetic."""

from __future__ import annotations

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from instruction_oracle import rng, run
from mlusim.cores.instructions.functions import FUSION_OPERATIONS
from rounding_oracle import MODES, OPERATIONS, nearest, operands, rounded

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


@pytest.mark.parametrize("operation", FUSION_OPERATIONS)
@pytest.mark.parametrize(("kind", "bits"), [(np.float16, 11), (np.float32, 24), (ml_dtypes.bfloat16, 8)])
def test_a_fusion_rounds_the_exact_result_once(operation: str, kind: type, bits: int) -> None:
    """Most results are near a tie: one, or the largest number, and about half of its last bit."""
    first, second = (OPERATIONS[{"A": "add", "S": "sub", "M": "mul"}[letter]] for letter in operation[1:])
    a, b = operands(kind, 200)
    c, _ = operands(kind, 200)
    a[:100], c[:100] = (1 + rng.integers(0, 1 << bits - 1, (2, 100)) * 2.0 ** (1 - bits)).astype(kind)
    b[:100] = (2.0**-bits / a[:100].astype(float)).astype(kind)
    if operation[1] != "M":
        b[:100] = (2.0 ** -rng.integers(1, 3 * bits, 100)).astype(kind)
    large = float(ml_dtypes.finfo(kind).max)
    parts = large * 2.0**-bits * rng.choice([-1, -0.25, 0.25, 0.75, 1, 1.25], (2, 80))
    a[100:180], b[100:180], c[100:180] = large, 1 if operation[1] == "M" else parts[0], parts[1]
    if operation[2] == "M":
        c[100:180] = 1
    exact = [
        second(first(*map(Fraction, map(float, each[:2]))), Fraction(float(each[2])))
        for each in zip(a, b, c, strict=True)
    ]
    got = run("fusion", np.empty(200, kind), a, b, c, operation=operation).astype(float)
    assert got.tolist() == [nearest(number, kind) for number in exact]


def test_a_fusion_of_infinities_nan_and_zeros() -> None:
    inf, nan = np.inf, np.nan
    a, b = np.array([inf, 1, 0, -0.0, nan], np.float32), np.array([0, inf, -inf, 1, 1], np.float32)
    c = np.array([1, -inf, inf, -0.0, 1], np.float32)
    with np.errstate(all="ignore"):
        for operation, wanted in (("FMA", a * b + c), ("FMS", a * b - c), ("FAM", (a + b) * c), ("FSA", a - b + c)):
            got = run("fusion", np.empty(5, np.float32), a, b, c, operation=operation)
            np.testing.assert_array_equal(got, wanted)
            assert np.signbit(got[3]) == np.signbit(wanted[3])


@pytest.mark.parametrize("mode", MODES)
def test_infinities_and_nan_are_those_of_ieee_arithmetic(mode: str) -> None:
    inf, nan = np.inf, np.nan
    a, b = np.array([inf, inf, -inf, 1, 0, nan, 5], np.float32), np.array([1, -inf, 2, 0, 0, 1, inf], np.float32)
    with np.errstate(all="ignore"):
        for name, wanted in (("add", a + b), ("sub", a - b), ("mul", a * b), ("div", a / b)):
            np.testing.assert_array_equal(run(f"{name}_{mode}", np.empty(7, np.float32), a, b), wanted)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", TYPES)
def test_integers_of_64_bits_round_once(kind: type, mode: str) -> None:
    values = np.append(rng.integers(-(2**63), 2**63 - 1, 100) >> rng.integers(0, 60, 100), [2**60 - 1, 1 - 2**60])
    expected = [rounded(Fraction(int(value)), mode, kind) for value in values]
    got = run("convert", np.empty(len(values), kind), values, rounding=mode)
    np.testing.assert_array_equal(got.astype(float), expected)


def test_a_type_without_infinities_rounds_to_its_largest_number() -> None:
    values = np.array([1000, -1000, 460], np.float32)
    for mode, wanted in (("tz", [448, -448, 448]), ("dn", [448, np.nan, 448]), ("rd", [np.nan, np.nan, 448])):
        got = run("convert", np.empty(3, ml_dtypes.float8_e4m3fn), values, rounding=mode)
        np.testing.assert_array_equal(got.astype(float), wanted)


def test_opposite_numbers_have_the_sum_minus_zero_rounded_down() -> None:
    a, b = np.array([1, 0, -0.0, 0], np.float32), np.array([-1, -0.0, -0.0, 0], np.float32)
    for mode, signs in (("dn", [True, True, True, False]), ("up", [False, False, True, False])):
        assert np.signbit(run(f"add_{mode}", np.empty(4, np.float32), a, b)).tolist() == signs
        assert np.signbit(run(f"sub_{mode}", np.empty(4, np.float32), a, -b)).tolist() == signs
