"""Conversions against exact rational arithmetic, NumPy and ml_dtypes.

The reference below shares no code with the simulator: it reads a bit pattern as a sign and a `Fraction`, and writes one
by rounding a `Fraction`. Patterns are compared bit by bit, except that any NaN is as good as another.
"""

from __future__ import annotations

import math
import os
import re
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlusim import dtypes
from mlusim.cores import convert as module
from mlusim.cores.convert import convert, steps
from mlusim.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.filterwarnings("error")

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
NARROW = [dtype for dtype in dtypes.FLOATS if dtype.itemsize <= 2]
HALF = Fraction(1, 2)
THOROUGH = os.environ.get("HYPOTHESIS_PROFILE") == "thorough"
# Beside the boundaries, which find what random patterns do not.
RANDOM_PATTERNS = 1500 if THOROUGH else 300
# Of the patterns of a 16-bit type every so many, beside its boundaries.
STEP_OF_16_BITS = 1 if THOROUGH else 7
ROUNDINGS: dict[str | None, Callable[[Fraction], int]] = {
    None: math.trunc,
    "tz": math.trunc,
    "rn": round,
    "rd": lambda x: math.floor(x + HALF) if x > 0 else math.ceil(x - HALF),
    "dn": math.floor,
    "up": math.ceil,
    "oz": lambda x: math.ceil(x) if x > 0 else math.floor(x),
}


def name(value: object) -> str:
    return dtypes.dtype_name(value) if isinstance(value, np.dtype) else str(value)


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


@cache
def boundaries(dtype: dtypes.Dtype) -> Array:
    """Where things go wrong: limits of integers, ends of exactness, ties, largest and smallest floats; and patterns."""
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
ALLOWED = [pair for pair in PAIRS if pair.values[0] not in PARTS or pair.values[1] in PARTS]


@pytest.mark.grid(3)
@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_every_pair(source: dtypes.Dtype, target: dtypes.Dtype) -> None:
    x = patterns(source)
    before = x.tobytes()
    if source in PARTS and target not in PARTS:
        with pytest.raises(InputError, match=f"^{name(source)} to {name(target)}: complex to real"):
            convert(x, target)
        return
    result = convert(x, target)
    assert result.dtype == target
    assert result.shape == x.shape
    assert x.tobytes() == before
    if source == target:
        assert result.tobytes() == before
    elif source in PARTS:
        parts = x.view(PARTS[source])
        assert_same(result.view(PARTS[target]), expected_bits(parts, PARTS[target]), parts)
    elif target in PARTS:
        parts = result.view(PARTS[target])
        assert_same(parts[::2], expected_bits(x, PARTS[target]), x)
        assert not bits_of(parts[1::2]).any()
    else:
        assert_same(result, expected_bits(x, target), x)


@pytest.mark.parametrize("target", NARROW, ids=name)
def test_every_tie_from_float32(target: dtypes.Dtype) -> None:
    """Each code and the next, the value half way between them, and float32's neighbours of it."""
    layout = FORMATS[target]
    code = np.arange(layout.infinity)
    magnitude = np.array([float(layout.magnitude(c)) for c in range(layout.infinity + 1)])
    tie = ((magnitude[1:] + magnitude[:-1]) / 2).astype(np.float32)
    assert np.array_equal(tie.astype(np.float64) * 2, magnitude[1:] + magnitude[:-1])
    nearest = {
        0: code + code % 2,
        -1: code,
        1: code + 1,
    }
    for direction, expected in nearest.items():
        x = (tie.view(np.uint32) + np.uint32(direction % 2**32)).view(np.float32)
        for sign in (1, -1):
            bits = (expected + (layout.sign_bit if sign < 0 else 0)).astype(f"u{target.itemsize}")
            assert_same(convert(sign * x, target), bits, x)


@pytest.mark.parametrize("rounding", [mode for mode in ROUNDINGS if mode])
@pytest.mark.parametrize("source", dtypes.FLOATS, ids=name)
def test_rounding_modes_to_integers(source: dtypes.Dtype, rounding: str) -> None:
    x = patterns(source)
    x = x[::7] if source.itemsize == 2 else x
    for target in dtypes.INTEGERS:
        assert_same(convert(x, target, rounding), expected_bits(x, target, rounding), x)


@pytest.mark.parametrize(
    ("rounding", "whole"),
    [
        (None, [0, 1, 1, 2, 0, -1, -1, -2, 0]),
        ("tz", [0, 1, 1, 2, 0, -1, -1, -2, 0]),
        ("rn", [0, 1, 2, 2, 0, -1, -2, -2, 0]),
        ("rd", [1, 1, 2, 3, -1, -1, -2, -3, 0]),
        ("dn", [0, 1, 1, 2, -1, -1, -2, -3, 0]),
        ("up", [1, 1, 2, 3, 0, -1, -1, -2, 1]),
        ("oz", [1, 1, 2, 3, -1, -1, -2, -3, 1]),
    ],
)
def test_rounding_by_hand(rounding: str | None, whole: list[int]) -> None:
    """The last one is the float below 0.5, that adding 0.5 takes to 1."""
    x = np.array([0.5, 1.0, 1.5, 2.5, -0.5, -1.0, -1.5, -2.5, np.nextafter(0.5, 0)])
    assert convert(x, np.int32, rounding).tolist() == whole
    assert convert(x.astype(np.float32), np.int8, rounding)[:-1].tolist() == whole[:-1]


@pytest.mark.grid(3)
@pytest.mark.parametrize(("source", "target"), ALLOWED)
def test_rn_is_taken_by_every_pair_and_changes_only_float_to_integer(
    source: dtypes.Dtype,
    target: dtypes.Dtype,
) -> None:
    x = patterns(source)[:300]
    if not (source in FORMATS and target in dtypes.INTEGERS):
        assert convert(x, target, "rn").tobytes() == convert(x, target).tobytes()


LITERALS = [
    (np.int64, 2**24 + 1, np.float32, 2.0**24),
    (np.int64, 2**24 + 3, np.float32, 2.0**24 + 4),
    (np.int64, 2**53 + 1, np.float64, 2.0**53),
    (np.uint64, 2**64 - 1, np.float32, 2.0**64),
    (np.uint64, 2**63 + 2**39, np.float32, 2.0**63),
    (np.uint64, 2**63 + 2**39 + 1, np.float32, 2.0**63 + 2.0**40),
    (np.int32, 65519, np.float16, 65504.0),
    (np.int32, 65520, np.float16, np.inf),
    # Twice rounded, on purpose: float32 puts each of these on a tie of float16 or bfloat16, which then goes to even.
    (np.float64, 1 + 2.0**-11 + 2.0**-40, np.float16, 1.0),
    (np.int64, 2**40 + 2**32 + 1, dtypes.BFLOAT16, 2.0**40),
    (np.float64, 1 + 2.0**-8 + 2.0**-40, dtypes.BFLOAT16, 1.0),
    (np.float64, 1 + 2.0**-4 + 2.0**-40, dtypes.FLOAT8_E4M3FN, 1.0),
    (np.float64, 2.0**-150, np.float32, 0.0),
    (np.float64, 1.5 * 2.0**-149, np.float32, 2.0**-148),
    (np.float32, 2.0**-24, np.float16, 2.0**-24),
    (np.float32, 2.0**-25, np.float16, 0.0),
    (np.float32, 464.0, dtypes.FLOAT8_E4M3FN, 448.0),
    (np.float32, 61440.0, dtypes.FLOAT8_E5M2, np.inf),
    (np.float32, 2.0**31, np.int32, 2**31 - 1),
    (np.float32, -(2.0**31), np.int32, -(2**31)),
    (np.float32, 2.0**31 - 128, np.int32, 2**31 - 128),
    (np.float32, 2.0**63, np.int64, 2**63 - 1),
    (np.float64, 2.0**63 - 1024, np.int64, 2**63 - 1024),
    (np.float64, 2.0**63, np.uint64, 2**63),
    (np.float64, 2.0**64, np.uint64, 2**64 - 1),
    (np.float32, 2.0**64 - 2.0**40, np.uint64, 2**64 - 2**40),
    (np.float32, -1.0, np.uint8, 0),
    (np.float32, 255.99, np.uint8, 255),
    (np.float32, np.nan, np.int32, 0),
    (np.float32, -np.inf, np.int16, -(2**15)),
    (np.int32, 300, np.int8, 44),
    (np.int8, -1, np.uint64, 2**64 - 1),
    (np.float32, np.nan, np.bool_, True),
    (np.float32, -0.0, np.bool_, False),
    (np.float32, 2.0**-149, np.bool_, True),
]


@pytest.mark.parametrize(("source", "value", "target", "expected"), LITERALS)
@pytest.mark.parametrize("count", [1, 67])
def test_by_hand(source: Any, value: Any, target: Any, expected: Any, count: int) -> None:
    """Alone, and in an array long enough for the processor's wide instructions and their tail."""
    result = convert(np.full(count, value, source), target)
    assert result.tolist() == [expected] * count


@pytest.mark.parametrize("target", NARROW, ids=name)
def test_as_the_libraries_do(target: dtypes.Dtype) -> None:
    x = np.random.default_rng(3).integers(0, 2**32, 200_000, np.uint32).view(np.float32)
    with np.errstate(all="ignore"):
        expected = x.astype(target)
    assert_same(convert(x, target), bits_of(expected), x)


@pytest.mark.parametrize("target", dtypes.ALL, ids=name)
def test_bool_bytes_other_than_one_are_true(target: dtypes.Dtype) -> None:
    x = np.array([0, 1, 2, 128, 255], np.uint8).view(np.bool_)
    if target == dtypes.BOOL:
        assert convert(x, target).tobytes() == x.tobytes()
    else:
        assert convert(x, target).tolist() == [0, 1, 1, 1, 1]


def layouts(x: Array) -> dict[str, Array]:
    cube = np.resize(x, 120).reshape(4, 5, 6)
    unaligned = np.zeros(cube.nbytes + 1, np.uint8)[1:].view(cube.dtype).reshape(cube.shape)
    unaligned[...] = cube
    return {
        "negative": cube[::-1, :, ::-1],
        "steps": cube[::2, 1::2, ::3],
        "transposed": cube.transpose(2, 0, 1),
        "zero stride": np.broadcast_to(cube[:, :1, :], cube.shape),
        "unaligned": unaligned,
        "rank 0": cube[1, 2, 3, ...],
        "empty": cube[:, :0],
    }


@pytest.mark.grid(4)
@pytest.mark.parametrize(("source", "target"), ALLOWED)
@pytest.mark.parametrize("chunk", [16, module.CHUNK])
def test_layouts(source: dtypes.Dtype, target: dtypes.Dtype, chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the strides, sizes and chunks, elements are converted as they are alone."""
    monkeypatch.setattr(module, "CHUNK", chunk)
    for kind, x in layouts(patterns(source)[:600:5]).items():
        x.flags.writeable = False
        expected = convert(np.ascontiguousarray(x).reshape(-1), target).tobytes()
        result = convert(x, target)
        assert (result.shape, result.dtype) == (x.shape, target), kind
        assert result.flags.c_contiguous, kind
        assert result.tobytes() == expected, kind
        frame = np.zeros((*x.shape, 2), target)
        out = frame[..., 1]
        assert convert(x, target, out=out) is out, kind
        assert out.tobytes() == expected, kind
        assert not frame[..., 0].any(), kind


@pytest.mark.parametrize(
    ("source", "target"),
    [("float64", "float16"), ("float32", "int32"), ("int64", "bfloat16"), ("float16", "uint8")],
)
def test_longer_than_a_chunk(source: str, target: str) -> None:
    x = np.resize(boundaries(dtypes.dtype_of(source)), 2 * module.CHUNK + 77)
    short = convert(x[: len(boundaries(dtypes.dtype_of(source)))], target)
    assert convert(x, target).tobytes() == np.resize(short, x.size).tobytes()


def test_error_state_of_the_caller_is_left_alone() -> None:
    x = np.array([np.nan, np.inf, 1e300, -1e300, 1e-300])
    with np.errstate(all="raise"):
        assert convert(x, np.float16).tolist()[1:] == [np.inf, np.inf, -np.inf, 0]
        assert convert(x, np.int8).tolist() == [0, 127, 127, -128, 0]
        with pytest.raises(FloatingPointError):
            np.float32(1) / np.float32(0)


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_any_bits(data: st.DataObject) -> None:
    source = data.draw(st.sampled_from([d for d in dtypes.ALL if d not in PARTS]))
    target = data.draw(st.sampled_from([d for d in dtypes.ALL if d not in PARTS and d != source]))
    bits = st.integers(0, 2 ** (8 * source.itemsize) - 1)
    x = np.array(data.draw(st.lists(bits, max_size=40)), f"u{source.itemsize}").view(source)
    modes = list(ROUNDINGS) if source in FORMATS and target in dtypes.INTEGERS else [None]
    rounding = data.draw(st.sampled_from(modes))
    assert_same(convert(x, target, rounding), expected_bits(x, target, rounding), x)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.floats(width=64), max_size=30), st.sampled_from(dtypes.FLOATS))
def test_floats_near_numbers(values: list[float], target: dtypes.Dtype) -> None:
    x = np.array(values, np.float64)
    expected = x.view(np.uint64) if target == x.dtype else expected_bits(x, target)
    assert_same(convert(x, target), expected, x)


@pytest.mark.grid(3)
@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_steps_lead_where_convert_goes(source: dtypes.Dtype, target: dtypes.Dtype) -> None:
    if source in PARTS and target not in PARTS:
        with pytest.raises(InputError, match="complex to real"):
            steps(source, target)
        return
    chain = steps(source, target)
    assert chain[-1:] == (() if source == target else (target,))
    x = boundaries(source) if source not in PARTS else patterns(source)
    walked = x
    for dtype in chain:
        walked = convert(walked, dtype)
    assert walked.tobytes() == convert(x, target).tobytes()


@pytest.mark.parametrize(
    ("source", "target", "chain"),
    [
        ("int64", "float16", ["float32", "float16"]),
        ("uint32", "bfloat16", ["float32", "bfloat16"]),
        ("float64", "float8_e5m2", ["float32", "float8_e5m2"]),
        ("float64", "float32", ["float32"]),
        ("float32", "float16", ["float16"]),
        ("int16", "float16", ["float16"]),
        ("bool", "float8_e4m3fn", ["float8_e4m3fn"]),
        ("float16", "bfloat16", ["bfloat16"]),
        ("float16", "int64", ["int64"]),
        ("int64", "int8", ["int8"]),
        ("float64", "complex64", ["complex64"]),
        ("float16", "half", []),
    ],
)
def test_steps_by_hand(source: str, target: str, chain: list[str]) -> None:
    assert [name(dtype) for dtype in steps(source, target)] == chain


def read_only() -> Array:
    array = np.zeros(3, np.float16)
    array.flags.writeable = False
    return array


X = np.zeros(3, np.float32)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            (X, "float16", "tz"),
            "rounding 'tz' does not apply to float32 to float16: the modes are for a float to an int",
        ),
        ((X.astype(int), "int8", "up"), "rounding 'up' does not apply to int64 to int8: the modes are for a float to"),
        ((X, "float32", "oz"), "rounding 'oz' does not apply to float32 to float32"),
        ((X, "bool", "dn"), "rounding 'dn' does not apply to float32 to bool"),
        ((X, "int8", "nearest"), "rounding 'nearest' is unknown: the modes are None, tz, rn, rd, dn, up, oz"),
        ((X.astype("c8"), "float32"), "complex64 to float32: complex to real would drop the imaginary part; convert"),
        ((X.astype("c8"), "bool"), "complex64 to bool: complex to real"),
        ((X, "str"), "dtype 'str' is not an element type; accepted are bool, int8"),
        ((X.astype(">f4"), "int8"), "dtype '>f4' is float32 in the other byte order"),
        ((np.array(["a"]), "int8"), "dtype dtype('<U1') is not an element type"),
        ((X, "int8", None, np.zeros(4, np.int8)), "out is int8 [4], the result int8 [3]: they must be the same"),
        ((X, "int8", None, np.zeros(3, np.uint8)), "out is uint8 [3], the result int8 [3]: they must be the same"),
        ((X, "float16", None, read_only()), "out is read-only"),
        ((X, "float16", None, X.view(np.float16)[:3]), "out shares bytes with the source, which is never written"),
        ((X, "int32", None, X.view(np.int32)), "out shares bytes with the source"),
    ],
)
def test_errors(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(InputError, match=f"^{re.escape(message)}"):
        convert(*arguments)


def test_out_may_lie_between_the_elements_of_source() -> None:
    memory = np.arange(12, dtype=np.float32)
    out = convert(memory[::2], np.int32, out=memory.view(np.int32)[1::2])
    assert out.tolist() == [0, 2, 4, 6, 8, 10]
    assert memory[::2].tolist() == [0, 2, 4, 6, 8, 10]
