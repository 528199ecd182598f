"""Rounding of floats in other modes than to nearest even: the modes of BANG C's conversions and vector library.

A result is computed to nearest first; the sign of its error then tells whether the mode selects a neighbour. Modes are
dn (down), up, tz (to zero), oz (away from zero), rd and rm (to nearest, ties away from zero and up), and rn.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mlusim.arrays import Array
from mlusim.dtypes import Dtype

DIRECTED = ("dn", "up", "tz")


def narrow(values: Array, target: Dtype, rounding: str) -> Array:
    """Round float64 `values` to a narrower float in a given mode; in "tz", overflow gives the largest finite value."""
    with np.errstate(all="ignore"):
        near = values.astype(target)
        error = np.where(np.isfinite(values), values - near.astype(np.float64), 0)
        if rounding not in {"rd", "rm"}:
            return _selected(near, error, np.signbit(values), rounding)
        low, high = (_selected(near, error, np.signbit(values), mode) for mode in ("dn", "up"))
        below, above = low.astype(np.float64), high.astype(np.float64)
        tie = (below != above) & (values * 2 == below + above)
        away = np.where(np.signbit(values), low, high) if rounding == "rd" else high
        return np.where(tie, away, near)


def _selected(near: Array, error: Array, negative: Array, rounding: str) -> Array:
    """Return `near`, or the neighbour that the mode selects, where `error`, of the exact value above it, is not 0."""
    down = (rounding == "dn") | ((rounding == "tz") & ~negative) | ((rounding == "oz") & negative)
    up = (rounding == "up") | ((rounding == "tz") & negative) | ((rounding == "oz") & ~negative)
    return np.where(down & (error < 0), _neighbour(near, -1), np.where(up & (error > 0), _neighbour(near, 1), near))


def _neighbour(values: Array, direction: int) -> Array:
    """Return the next float above (1) or below (-1)."""
    width = values.dtype.itemsize
    sign = 1 << (8 * width - 1)
    bits = values.view(f"u{width}").astype(np.int64)
    ordered = np.where(bits & sign, sign - bits, bits) + direction
    bits = np.where(ordered < 0, sign - ordered, ordered)
    return bits.astype(f"u{width}").view(values.dtype)


def _sum_error(near: Array, a: Array, b: Array) -> Array:
    """Return the error of a sum: that of rounding its float64 sum, or where there is none, that of the float64 sum."""
    total = a + b
    part = total - a
    return np.where(total != near, total - near, (a - (total - part)) + (b - part))


# The exact result minus the nearest one: its sign is right in float64, since operands have at most 24 bits.
_ERRORS: dict[str, Callable[[Array, Array, Array], Array]] = {
    "add": _sum_error,
    "sub": lambda near, a, b: _sum_error(near, a, -b),
    "mul": lambda near, a, b: a * b - near,
    "div": lambda near, a, b: (a - near * b) * np.copysign(1, b),
}
_NEAREST: dict[str, Any] = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide}


def rounded(operation: str, a: Array, b: Array, rounding: str) -> Array:
    """Return the sum, difference, product or quotient of floats of 32 bits or less, rounded once in a mode.

    Args:
        operation: add, sub, mul or div.
        a, b: operands of one type, which the result has, too; b may be a number of that type.
        rounding: rn, or one of `DIRECTED`.
    """
    near = _NEAREST[operation](a, b)
    error = _ERRORS[operation](*(values.astype(np.float64) for values in (near, a, b)))
    return _selected(near, error, np.signbit(near), rounding)
