"""Checks of what a kernel passes to an instruction: views of memory, and numbers."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from mlusim.arrays import Array, as_element
from mlusim.dtypes import dtype_name
from mlusim.errors import OperandError, shown
from mlusim.memory.view import View

# An unchecked argument that should be a view. With the type `View`, compiled code would raise its own error before
# `check_view` can name the operation and the remedy.
Passed: TypeAlias = Any


def check_view(name: str, value: object) -> View:
    """Return a view of memory. Raises `OperandError` if the value is something else."""
    if isinstance(value, View):
        return value
    raise OperandError(f"{name} of {shown(value)}: it takes a view of memory, such as x[0], not {type(value).__name__}")


def number(name: str, value: Any, dtype: np.dtype[Any]) -> Array:
    """Return a number in an element type. Raises `OperandError` if the value is not a number."""
    if isinstance(value, np.ndarray) and not value.ndim:
        value = value[()]
    if not isinstance(value, bool | int | float | complex | np.generic) or isinstance(value, str | bytes):
        copies = "; core.memcpy(dst, src) copies a view" if isinstance(value, View) else ""
        raise OperandError(
            f"{name} with {shown(value)}: the value must be a number, not {type(value).__name__}{copies}"
        )
    try:
        if dtype.kind == "c" or not isinstance(value, complex | np.complexfloating):
            if dtype.kind in "iu":
                check_convertible(name, np.asarray(value), dtype)
            return as_element(value, dtype)
    except (OverflowError, TypeError, ValueError):
        pass
    raise OperandError(f"{name} with {shown(value)}: {dtype_name(dtype)} cannot represent it")


def check_convertible(name: str, values: Array, dtype: np.dtype[Any]) -> None:
    """Raise `OperandError` for a float that has no value in an integer type: C leaves its conversion undefined.

    Other conversions are those of C: fractions are truncated, and integers wrap.
    """
    if dtype.kind not in "iu" or values.dtype.kind in "biuO":
        return
    width = 8 * dtype.itemsize
    min_value, limit = (-(1 << width - 1), 1 << width - 1) if dtype.kind == "i" else (0, 1 << width)
    truncated = np.trunc(values.astype(np.float64))
    outside = np.flatnonzero(~((truncated >= float(min_value)) & (truncated < float(limit))))
    if len(outside):
        position = np.unravel_index(outside[0], values.shape)
        position_text = f" at {[int(index) for index in position]}" if values.ndim else ""
        raise OperandError(
            f"{name} with {values[position]!s}{position_text}: {dtype_name(dtype)} does not hold that number, and in C "
            f"its conversion is undefined; pass a number from {min_value} to {limit - 1}"
        )
