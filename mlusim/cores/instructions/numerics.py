"""Numerics of elementwise instructions: functions of arrays, and wrappers that make an instruction compute them.

Numerics are NumPy's in the declared element type: each result is rounded to it once, integers wrap, comparisons and
logic give 1 or 0 in the operands' type.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mlusim.arrays import Array
from mlusim.cores.instructions.rounding import round_result

Ufunc = Callable[..., Any]

# Comparisons by BANG C's name: the function, and its sign in summaries.
COMPARISONS: dict[str, tuple[Ufunc, str]] = {
    "lt": (np.less, "<"),
    "le": (np.less_equal, "<="),
    "gt": (np.greater, ">"),
    "ge": (np.greater_equal, ">="),
    "eq": (np.equal, "=="),
    "ne": (np.not_equal, "!="),
}


def binary(function_of_two: Ufunc) -> Callable[..., None]:
    """Return numerics of `result[i] = f(a[i], b[i])`; b may be a number."""

    def compute(result: Array, a: Array, b: Array) -> None:
        values = function_of_two(a.reshape(-1), b.reshape(-1) if b.ndim else b)
        np.copyto(result.reshape(-1), values, casting="unsafe")

    return compute


def unary(function_of_one: Ufunc) -> Callable[..., None]:
    """Return numerics of `result[i] = f(a[i])`."""

    def compute(result: Array, a: Array) -> None:
        np.copyto(result.reshape(-1), function_of_one(a.reshape(-1)), casting="unsafe")

    return compute


def cycle(function_of_two: Ufunc) -> Callable[..., None]:
    """Return numerics of `result[i] = f(a[i], segment[i % m])`."""

    def compute(result: Array, a: Array, segment: Array) -> None:
        values = function_of_two(a.reshape(-1, segment.size), segment.reshape(-1))
        np.copyto(result.reshape(-1), values.reshape(-1), casting="unsafe")

    return compute


def _bits(array: Array) -> Array:
    return array.view(f"u{array.dtype.itemsize}")


def on_bits(operation: Ufunc) -> Ufunc:
    """Return a function that applies a bitwise operation to the bits of elements of any type."""

    def compute(*arrays: Array) -> Array:
        kind = arrays[0].dtype
        result: Array = operation(*(_bits(array) for array in arrays)).view(kind)
        return result

    return compute


def add_to_zero(a: Array, b: Array) -> Array:
    """Return the sum rounded toward zero."""
    return round_result("add", a, b, "tz")


def divide(a: Array, b: Array) -> Array:
    """IEEE division of floats; integers truncate, as in C, and x / 0 is 0 (undefined on the board)."""
    if a.dtype.kind not in "iu":
        return np.divide(a, b)
    quotient = np.floor_divide(a, b)
    remainder = np.not_equal(quotient * b, a) & (b != 0)
    return np.asarray(np.where(remainder & ((a < 0) != (b < 0)), quotient + 1, quotient))


def remainder(a: Array, b: Array) -> Array:
    """C's remainder, with the sign of a; x % 0 is 0 for integers (undefined on the board)."""
    return np.asarray(np.fmod(a, b))


def shift_left(a: Array, b: Array) -> Array:
    """Shift left, filling with zeros; a shift by the width or more gives 0."""
    return _shift(np.left_shift, a, b)


def shift_right(a: Array, b: Array) -> Array:
    """Shift right, filling with zeros regardless of the sign; a shift by the width or more gives 0."""
    return _shift(np.right_shift, a, b)


def _shift(operation: Ufunc, a: Array, b: Array) -> Array:
    count, width = np.asarray(b).astype(np.int64), a.dtype.itemsize * 8
    unsigned = _bits(a)
    shifted = operation(unsigned, np.minimum(count, width - 1).astype(unsigned.dtype))
    return np.where(count < width, shifted, 0).astype(unsigned.dtype).view(a.dtype)


def sign(a: Array) -> Array:
    """1 where a >= 0, -0.0 included, else -1; NaN gives -1 because the comparison fails."""
    return np.where(a >= 0, 1, -1)


def round_half_away(a: Array) -> Array:
    """Round to the nearest integer, halves away from zero."""
    integers = np.trunc(a)
    return np.asarray(integers + np.copysign(np.abs(a - integers) >= 0.5, a).astype(a.dtype))


def relu(a: Array) -> Array:
    """Return the larger of each element and 0."""
    values: Array = np.maximum(a, a.dtype.type(0))
    return values
