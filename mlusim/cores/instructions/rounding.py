"""Rounding of floats in other modes than to nearest even: the modes of BANG C's conversions and vector library.

A result is computed to nearest first; the sign of its error then tells whether the mode selects a neighbour. Modes are
dn (down), up, tz (to zero), oz (away from zero), rd and rm (to nearest, ties away from zero and up), and rn.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from mlusim.arrays import Array
from mlusim.dtypes import Dtype, is_integer

DIRECTED = ("dn", "up", "tz")


def narrow(values: Array, target: Dtype, rounding: str) -> Array:
    """Round float64 or integer `values` to a narrower float in a given mode.

    In "tz", overflow gives the largest finite value.
    """
    with np.errstate(all="ignore"):
        nearest, negative = values.astype(np.float64).astype(target), np.signbit(values)
        largest = ml_dtypes.finfo(target).max  # type: ignore[no-untyped-call]  # no types in ml_dtypes
        # A type without infinities overflows to NaN.
        finite = np.where(np.isfinite(values) & np.isnan(nearest), np.where(negative, -largest, largest), nearest)
        error = _difference(values, finite)
        if rounding not in {"rd", "rm"}:
            return _select_rounded(finite, error, negative, rounding)
        low, high = (_select_rounded(finite, error, negative, mode) for mode in ("dn", "up"))
        above_low, below_high = _difference(values, low), -_difference(values, high)
        upper = np.where(above_low == below_high, ~negative | (rounding == "rm"), above_low > below_high)
        # Beyond the largest number, the nearest one decides.
        return np.where(np.isfinite(low) & np.isfinite(high), np.where(upper, high, low), nearest)


def _difference(values: Array, floats: Array) -> Array:
    """Return values - floats in float64, 0 for values that are not finite; its sign, and that it is 0, are exact."""
    doubles = floats.astype(np.float64)
    if values.dtype.itemsize == 8 and is_integer(values.dtype):
        # 64 bits do not fit in a float64; its upper half is exact, and so is the difference from a float near by.
        return ((values >> 32).astype(np.float64) * 2.0**32 - doubles) + (values & 0xFFFFFFFF).astype(np.float64)
    return np.where(np.isfinite(values), values.astype(np.float64) - doubles, 0)


def _select_rounded(nearest: Array, error: Array, negative: Array, rounding: str) -> Array:
    """Return `nearest`, or the neighbour that the mode selects.

    Args:
        error: the exact value minus `nearest`; where it is 0, `nearest` is the result in every mode.
    """
    rounds_down = (rounding == "dn") | ((rounding == "tz") & ~negative) | ((rounding == "oz") & negative)
    rounds_up = (rounding == "up") | ((rounding == "tz") & negative) | ((rounding == "oz") & ~negative)
    return np.where(
        rounds_down & (error < 0),
        _neighbour(nearest, -1),
        np.where(rounds_up & (error > 0), _neighbour(nearest, 1), nearest),
    )


def _neighbour(values: Array, direction: int) -> Array:
    """Return the next float above (1) or below (-1)."""
    width = values.dtype.itemsize
    sign = 1 << (8 * width - 1)
    bits = values.view(f"u{width}").astype(np.int64)
    ordered = np.where(bits & sign, sign - bits, bits) + direction
    bits = np.where(ordered < 0, sign - ordered, ordered)
    return bits.astype(f"u{width}").view(values.dtype)


def _two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """Return the float64 sum, and the exact one minus it."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def _sum_error(rounded_sum: Array, a: Array, b: Array) -> Array:
    """Return the error of a sum: that of rounding its float64 sum, or where there is none, that of the float64 sum."""
    total, error = _two_sum(a, b)
    return np.where(total != rounded_sum, total - rounded_sum, error)


# The exact result minus the nearest one: its sign is right in float64, since operands have at most 24 bits.
_ERRORS: dict[str, Callable[[Array, Array, Array], Array]] = {
    "add": _sum_error,
    "sub": lambda near, a, b: _sum_error(near, a, -b),
    "mul": lambda near, a, b: a * b - near,
    "div": lambda near, a, b: (a - near * b) * np.copysign(1, b),
}
_NEAREST: dict[str, Any] = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide}


def round_result(operation: str, a: Array, b: Array, rounding: str) -> Array:
    """Return the sum, difference, product or quotient of floats of 32 bits or less, rounded once in a mode.

    Args:
        operation: add, sub, mul or div.
        a, b: operands of one type, which the result has, too; b may be a number of that type.
        rounding: rn, or one of `DIRECTED`.
    """
    nearest = _NEAREST[operation](a, b)
    error = _ERRORS[operation](*(values.astype(np.float64) for values in (nearest, a, b)))
    result = _select_rounded(nearest, error, np.signbit(nearest), rounding)
    if rounding == "dn" and operation in {"add", "sub"}:
        # Only positive zeros have the sum +0; opposite numbers have -0 (IEEE 754, 6.3).
        positive = ~np.signbit(a) & (np.signbit(b) == (operation == "sub"))
        return np.where((result == 0) & ~positive, -np.abs(result), result)
    return result


# Splits a float64 into parts of 26 bits, whose products with 24 bits are exact.
_SPLIT = 2.0**27 + 1


def compute_fused(first: str, second: str, a: Array, b: Array, c: Array) -> Array:
    """Return two operations on floats of 32 bits or less, rounded once, to nearest.

    Args:
        first, second: the operation on a and b, and that of its result with c: A (plus), S (minus) or M (times), which
            is not both.
        a, b, c: operands of one type, which the result has, too; b and c may be numbers of that type.
    """
    x, y, z = (values.astype(np.float64) for values in (a, b, c))
    # In float64, and the exact result minus that.
    total, error = (x * y, np.zeros(())) if first == "M" else _two_sum(x, y if first == "A" else -y)
    if second == "M":
        high = total * _SPLIT - (total * _SPLIT - total)
        product = total * z
        total, error = product, (high * z - product) + (total - high) * z + error * z
    else:
        total, sum_error = _two_sum(total, z if second == "A" else -z)
        error = error + sum_error
    error = np.where(np.isfinite(error), error, 0)
    near_total, remainder = _two_sum(total, error)
    return _round_to_nearest(np.where(error == 0, total, near_total), remainder, a.dtype)


def _round_to_nearest(values: Array, remainder: Array, target: Dtype) -> Array:
    """Round `values`, in float64, to the nearest float of a narrower type; `remainder` decides ties.

    Args:
        remainder: the exact value minus `values`.
    """
    nearest = values.astype(target)
    excess = values - _without_infinities(nearest)
    other = np.where(excess > 0, _neighbour(nearest, 1), _neighbour(nearest, -1))
    half = np.abs(_without_infinities(other) - _without_infinities(nearest)) / 2
    # Conversions to bfloat16 round to float32 first, and may make a tie.
    other_is_nearer = (np.abs(excess) > half) | ((np.abs(excess) == half) & (remainder * excess > 0))
    return np.where(other_is_nearer & np.isfinite(values), other, nearest)


def _without_infinities(floats: Array) -> Array:
    """Return floats in float64, infinities as the power of two that would follow the largest number."""
    doubles = floats.astype(np.float64)
    overflow = 2.0 ** ml_dtypes.finfo(floats.dtype).maxexp  # type: ignore[no-untyped-call]  # no types in ml_dtypes
    return np.where(np.isinf(doubles), np.copysign(overflow, doubles), doubles)
