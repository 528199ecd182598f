"""Element types as exact fractions: an oracle of conversions."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, cached_property
from typing import Any

import numpy as np
import pytest

from mlusim import dtypes

Array = np.ndarray[Any, Any]
NAN, INF = "nan", "inf"
Value = tuple[int, Fraction | str]  # sign bit and magnitude


@dataclass(frozen=True)
class Format:
    """Layout of an IEEE-like float. `finite_only`: no infinity, and only the last code is NaN."""

    exponent_bits: int
    fraction_bits: int
    finite_only: bool = False

    @cached_property
    def sign_bit(self) -> int:
        return 1 << (self.exponent_bits + self.fraction_bits)

    @cached_property
    def least_exponent(self) -> int:
        return 2 - (1 << (self.exponent_bits - 1))

    @cached_property
    def infinity(self) -> int:
        """First code, without sign, that is not finite."""
        last = self.sign_bit - 1
        return last if self.finite_only else last - ((1 << self.fraction_bits) - 1)

    def magnitude(self, code: int) -> Fraction:
        """Value of a code without sign, the first ones that are not finite included."""
        exponent, fraction = code >> self.fraction_bits, code & ((1 << self.fraction_bits) - 1)
        if exponent:
            fraction += 1 << self.fraction_bits
        return fraction * Fraction(2) ** (max(exponent, 1) - 1 + self.least_exponent - self.fraction_bits)

    def decode(self, bits: int) -> Value:
        sign, code = int(bits >= self.sign_bit), bits & (self.sign_bit - 1)
        if code < self.infinity:
            return sign, self.magnitude(code)
        return sign, INF if code == self.infinity and not self.finite_only else NAN

    def encode(self, value: Value) -> int:
        """Round to nearest, ties to even. NaN comes out as the last code."""
        sign, magnitude = value
        if magnitude is NAN or (magnitude is INF and self.finite_only):
            return self.sign_bit - 1
        code = self.infinity
        if isinstance(magnitude, Fraction):
            top, bottom = magnitude.numerator, magnitude.denominator
            exponent = top.bit_length() - bottom.bit_length() - 1
            if top << max(-exponent - 1, 0) >= bottom << max(exponent + 1, 0):
                exponent += 1
            exponent = max(exponent, self.least_exponent) if top else self.least_exponent
            quantum = exponent - self.fraction_bits
            whole, rest = divmod(top << max(-quantum, 0), bottom << max(quantum, 0))
            if (2 * rest, whole % 2) > (bottom << max(quantum, 0), 0):
                whole += 1
            code = min(whole + ((exponent - self.least_exponent) << self.fraction_bits), self.infinity)
        return sign * self.sign_bit + code

    def is_nan(self, bits: Array) -> Array:
        code = bits & np.array(self.sign_bit - 1, bits.dtype)
        nan: Array = code >= self.infinity + (0 if self.finite_only else 1)
        return nan


FORMATS = {
    dtypes.FLOAT16: Format(5, 10),
    dtypes.BFLOAT16: Format(8, 7),
    dtypes.FLOAT32: Format(8, 23),
    dtypes.FLOAT64: Format(11, 52),
    dtypes.FLOAT8_E4M3FN: Format(4, 3, finite_only=True),
    dtypes.FLOAT8_E5M2: Format(5, 2),
}
PARTS = {dtypes.COMPLEX64: dtypes.FLOAT32, dtypes.COMPLEX128: dtypes.FLOAT64}
THOROUGH = os.environ.get("HYPOTHESIS_PROFILE") == "thorough"
# Beside the boundaries, which find what random patterns do not.
RANDOM_PATTERNS = 1500 if THOROUGH else 300
# Of the patterns of a 16-bit type every so many, beside its boundaries.
STEP_OF_16_BITS = 1 if THOROUGH else 7


def name(value: object) -> str:
    return dtypes.dtype_name(value) if isinstance(value, np.dtype) else str(value)


@cache
def boundaries(dtype: dtypes.Dtype) -> Array:
    """Critical values: limits of integers, ends of exactness, ties, largest and smallest floats; and patterns."""
    random = np.random.default_rng(20)
    bits = random.integers(0, 2**64 - 1, RANDOM_PATTERNS, np.uint64, endpoint=True).astype(f"u{dtype.itemsize}")
    if dtype in FORMATS:
        layout = FORMATS[dtype]
        powers = [1 << k for k in (0, 1, 7, 8, 10, 11, 15, 16, 23, 24, 31, 32, 52, 53, 62, 63, 64)]
        near = [Fraction(p) + d for p in powers for d in (-1, Fraction(-1, 2), 0, Fraction(1, 2), 1)]
        near += [Fraction(n, 4) for n in range(24)]
        for other in FORMATS.values():  # the largest, the tie above it, the smallest, half and one and a half of it
            last, first = other.magnitude(other.infinity - 1), other.magnitude(1)
            near += [last, (last + other.magnitude(other.infinity)) / 2, first, first / 2, first * 3 / 2]
            one = other.magnitude((1 << (other.exponent_bits - 1)) - 1 << other.fraction_bits)
            near += [one + Fraction(k, 2 << other.fraction_bits) for k in range(4)]
        codes = [min(layout.encode((0, x)), layout.infinity - 1) for x in near]
        codes += [c + d for c in codes for d in (-1, 1) if 0 <= c + d < layout.infinity]
        codes += [layout.infinity, layout.infinity + 1, layout.sign_bit - 1, layout.infinity - 1]
        codes = [min(code, layout.sign_bit - 1) for code in codes]
        codes += [layout.sign_bit | code for code in codes]
        # Patterns at random are nearly all far out of every integer's range: these are not.
        draws = [
            Fraction(int(m), 1 << 20) * 2 ** int(e)
            for m, e in zip(*random.integers(0, (1 << 20, 66), (500, 2)).T, strict=True)
        ]
        codes += [layout.encode((i % 2, x)) for i, x in enumerate(draws)]
    else:
        width = 8 * dtype.itemsize
        near_powers = [(1 << k) + d for k in range(width + 1) for d in (-1, 0, 1)]
        # A float of p bits has ties at odd multiples of half its last place, and float32 may create or hide them.
        ties = [
            (1 << k) + (odd << (k - p)) + d
            for p in (3, 4, 8, 11, 24, 53)
            for k in range(p, width)
            for odd in (1, 3)
            for d in (-1, 0, 1)
        ]
        codes = [n % (1 << width) for x in near_powers + ties for n in (x, -x)]
    return np.concatenate([np.array(codes, bits.dtype), bits]).view(dtype)


@cache
def patterns(dtype: dtypes.Dtype) -> Array:
    """Every pattern of an 8-bit type, some and the boundaries of a 16-bit type, the boundaries of a wider one."""
    if dtype in PARTS:
        return np.resize(patterns(PARTS[dtype]), 4000).view(dtype)
    if dtype.itemsize == 1:
        return np.arange(1 << 8, dtype=np.uint8).view(dtype)
    if dtype.itemsize == 2:
        every = np.arange(0, 1 << 16, STEP_OF_16_BITS, dtype=np.uint16).view(dtype)
        return np.concatenate([every, boundaries(dtype)])
    return boundaries(dtype)


PAIRS = [pytest.param(s, t, id=f"{name(s)}-{name(t)}") for s in dtypes.ALL for t in dtypes.ALL]


NARROW = [dtype for dtype in dtypes.FLOATS if dtype.itemsize <= 2]
HALF = Fraction(1, 2)
ROUNDINGS: dict[str | None, Callable[[Fraction], int]] = {
    None: math.trunc,
    "tz": math.trunc,
    "rn": round,
    "rd": lambda x: math.floor(x + HALF) if x > 0 else math.ceil(x - HALF),
    "dn": math.floor,
    "up": math.ceil,
    "oz": lambda x: math.ceil(x) if x > 0 else math.floor(x),
}


def bits_of(array: Array) -> Array:
    """Bits of non-complex elements as unsigned integers."""
    return array.view(np.dtype(f"u{array.itemsize}"))


@cache
def decode_all(data: bytes, dtype: dtypes.Dtype) -> list[Value]:
    """Values of an array's bytes. Cached: the same patterns go to every target."""
    return [decode(bits, dtype) for bits in np.frombuffer(data, f"u{dtype.itemsize}").tolist()]


def decode(bits: int, dtype: dtypes.Dtype) -> Value:
    if dtype in FORMATS:
        return FORMATS[dtype].decode(bits)
    if dtype == dtypes.BOOL:
        return 0, Fraction(bits != 0)
    number = bits - (1 << 8 * dtype.itemsize) if dtype.kind == "i" and bits >> (8 * dtype.itemsize - 1) else bits
    return int(number < 0), Fraction(abs(number))


def encode(value: Value, source: dtypes.Dtype, target: dtypes.Dtype, rounding: str | None) -> int:
    sign, magnitude = value
    if target == dtypes.BOOL:
        return int(not isinstance(magnitude, Fraction) or magnitude.numerator != 0)
    if target in FORMATS:
        wide = source.itemsize >= 4 and source != dtypes.FLOAT32
        if wide and target in NARROW:
            single = FORMATS[dtypes.FLOAT32]
            value = single.decode(single.encode(value))
        return FORMATS[target].encode(value)
    if magnitude is NAN:
        return 0
    limits = np.iinfo(target)
    if not isinstance(magnitude, Fraction):
        number = int(limits.min if sign else limits.max)
    else:
        number = ROUNDINGS[rounding](-magnitude if sign else magnitude)
        if source in FORMATS:
            number = min(max(number, int(limits.min)), int(limits.max))
    return number % (1 << 8 * target.itemsize)


def expected_bits(source: Array, target: dtypes.Dtype, rounding: str | None = None) -> Any:
    values = decode_all(source.tobytes(), source.dtype)
    codes = [encode(value, source.dtype, target, rounding) for value in values]
    return np.array(codes, f"u{target.itemsize}")


def assert_same(actual: Array, expected: Array, source: Array) -> None:
    """Equal bits, or both NaN."""
    bits = bits_of(actual)
    wrong = bits != expected
    if actual.dtype in FORMATS:
        is_nan = FORMATS[actual.dtype].is_nan
        wrong &= ~(is_nan(bits) & is_nan(expected))
    first = np.flatnonzero(wrong)[:1]
    assert not first.size, (bits_of(source)[first], source[first], bits[first], expected[first])
