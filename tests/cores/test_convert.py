"""Conversions between all element types, compared with exact rational arithmetic."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exact_conversions import (
    FORMATS,
    NARROW,
    PAIRS,
    PARTS,
    ROUNDINGS,
    Array,
    assert_same,
    bits_of,
    boundaries,
    expected_bits,
    name,
    patterns,
)
from mlusim import dtypes
from mlusim.cores import convert as module
from mlusim.cores.convert import convert
from mlusim.errors import InputError

ALLOWED = [pair for pair in PAIRS if pair.values[0] not in PARTS or pair.values[1] in PARTS]


@pytest.mark.grid(6)
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
    """The last one is the float just below 0.5; adding 0.5 to it gives 1."""
    x = np.array([0.5, 1.0, 1.5, 2.5, -0.5, -1.0, -1.5, -2.5, np.nextafter(0.5, 0)])
    assert convert(x, np.int32, rounding).tolist() == whole
    assert convert(x.astype(np.float32), np.int8, rounding)[:-1].tolist() == whole[:-1]


@pytest.mark.grid(3)
@pytest.mark.parametrize(
    ("source", "target"),
    [pair for pair in ALLOWED if pair.values[0] not in FORMATS or pair.values[1] not in dtypes.INTEGERS],
)
def test_rn_affects_only_float_to_integer(source: dtypes.Dtype, target: dtypes.Dtype) -> None:
    x = patterns(source)[:300]
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
def test_conversions_match_numpy_and_ml_dtypes(target: dtypes.Dtype) -> None:
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
    """Strides, sizes and chunks do not change how an element is converted."""
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
def test_arrays_longer_than_a_chunk_are_converted(source: str, target: str) -> None:
    x = np.resize(boundaries(dtypes.dtype_of(source)), 2 * module.CHUNK + 77)
    short = convert(x[: len(boundaries(dtypes.dtype_of(source)))], target)
    assert convert(x, target).tobytes() == np.resize(short, x.size).tobytes()


def test_the_callers_error_state_is_unchanged() -> None:
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
