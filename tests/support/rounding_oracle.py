"""Rounding in exact rational arithmetic."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

OPERATIONS: dict[str, Callable[[Fraction, Fraction], Fraction]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
}
# Bits of the significand, and the exponent of the smallest normal number.
_FORMATS = {"float16": (11, -14), "float32": (24, -126), "bfloat16": (8, -126)}
MODES = ("dn", "up", "tz")


def rounded(value: Fraction, mode: str, dtype: Any) -> float:
    """Return a number rounded down, up or to zero in a type."""
    bits, smallest = _FORMATS[np.dtype(dtype).name]
    if not value:
        return 0.0
    exponent = abs(value.numerator).bit_length() - value.denominator.bit_length()
    exponent -= abs(value) < Fraction(2) ** exponent
    step = Fraction(2) ** (max(exponent, smallest) - bits + 1)
    down = mode == "dn" or (mode == "tz" and value > 0)
    result = (math.floor if down else math.ceil)(value / step) * step
    largest = (2 - Fraction(2) ** (1 - bits)) * Fraction(2) ** (1 - smallest)
    if abs(result) <= largest:
        return float(result)
    return float(largest if down else np.inf) if result > 0 else float(-np.inf if down else -largest)


def nearest(value: Fraction, dtype: Any) -> float:
    """Return the nearest number of a type, of two the one with an even last bit; infinity follows the largest."""
    down, up = (rounded(value, mode, dtype) for mode in ("dn", "up"))
    beyond = Fraction(2) ** (2 - _FORMATS[np.dtype(dtype).name][1])
    low, high = (
        Fraction(number) if math.isfinite(number) else beyond * int(math.copysign(1, number)) for number in (down, up)
    )
    below, above = value - low, high - value
    bits = np.array(down, dtype).view(f"u{np.dtype(dtype).itemsize}")
    return down if below < above or (below == above and not bits & 1) else up


def operands(dtype: Any, count: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return pairs of very different sizes, the last ones at the ends of the range; no divisor is 0."""
    rng = np.random.default_rng(5)
    a, b = ((rng.standard_normal(count) * np.exp2(rng.integers(-14, 14, count))).astype(dtype) for _ in range(2))
    bits, smallest = _FORMATS[np.dtype(dtype).name]
    large, tiny = (2 - 2.0 ** (1 - bits)) * 2.0 ** (1 - smallest), 2.0 ** (smallest - bits + 1)
    far = 2.0 ** (-3 * bits if bits > 11 else -bits - 3)
    ends = [(1, far), (1, -far), (-1, far), (1, 3), (large, large), (-large, large), (tiny, 0.5), (-tiny, 0.5)]
    ends += [(large, 0.5), (-large, 0.5), (tiny, tiny), (large, -tiny), (1, 1), (-tiny, tiny)]
    for place, (x, y) in enumerate(ends, count - len(ends)):
        a[place], b[place] = x, y
    return a, b
