"""Sums, extrema, counts, selections and histograms, compared with Python's numbers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from instruction_oracle import BITINDEX, rng, run, values
from mlusim.dtypes import dtype_of, is_float


@pytest.mark.parametrize("kind", ["float16", "float32", "bfloat16", "int32", "int8"])
def test_sums(kind: str) -> None:
    a = values(100, kind, low=-2, high=2)
    result = np.full(3, 7).astype(a.dtype)
    total = sum(float(x) for x in a)
    assert float(run("sum", result, a)[0]) == float(np.array(total).astype(a.dtype))
    assert result[1] == 7
    if is_float(a.dtype):
        each = 128 // a.dtype.itemsize
        # The last line is not full.
        lines = np.ones(3 * each + 5).astype(a.dtype)
        lines[:each] = 2
        got = run("reduce_sum", np.full(lines.size, 9).astype(a.dtype), lines)
        assert got[::each].astype(float).tolist() == [2 * each, each, each, 5]
        assert set(np.delete(got, [0, each, 2 * each, 3 * each]).astype(float).tolist()) == {9}


@pytest.mark.parametrize("kind", ["float16", "float32", "bfloat16", "int32"])
@pytest.mark.parametrize(
    ("name", "better"),
    [
        ("max", lambda x: x),
        ("argmax", lambda x: x),
        ("min", lambda x: -x),
        ("argmin", lambda x: -x),
        ("fabsmax", abs),
        ("fabsmin", lambda x: -abs(x)),
    ],
)
def test_extrema_are_followed_by_their_index(name: str, better: Any, kind: str) -> None:
    a = values(77, kind)
    numbers = [float(x) for x in a]
    index = max(range(77), key=lambda i: (better(numbers[i]), -i))
    width = a.dtype.itemsize
    raw = np.full(16, 0xAB, np.uint8)
    room = raw.view(a.dtype)
    run(name, room, a)
    assert float(room[0]) == (abs(numbers[index]) if name.startswith("fabs") else numbers[index])
    assert int(raw[width : width + 8].view(np.uint64)[0]) == index
    assert set(raw[width + 8 :].tolist()) <= {0xAB}


def test_counts_and_positions() -> None:
    a = np.array([0, -0.0, 1, math.nan, 0, -2, 0], np.float32)
    assert run("count", np.zeros(1, np.uint32), a)[0] == 3
    assert run("findfirst1", np.zeros(1, np.uint32), a)[0] == 2
    assert run("findlast1", np.zeros(1, np.uint32), a)[0] == 5
    assert run("findfirst1", np.zeros(1, np.uint32), np.zeros(9, np.float16))[0] == 0xFFFFFFFF
    assert run("findlast1", np.zeros(1, np.int32), np.zeros(9, np.float16))[0] == -1
    bits = rng.integers(0, 256, 64, np.uint8)
    expected = sum(byte.bit_count() for byte in bits.tolist())
    for name in ("count_bitindex", "popcnt"):
        assert run(name, np.zeros(1, np.uint32), bits.view(np.uint32))[0] == expected
    for narrow in (np.uint16, np.uint8):
        assert run("popcnt", np.zeros(1, np.uint32), bits.view(narrow))[0] == expected


@pytest.mark.parametrize("kind", ["float32", "float16", "int8", "int64"])
def test_selection(kind: str) -> None:
    a = values(64, kind)
    mask = rng.integers(0, 2, 64)
    chosen = [x for x, m in zip(a.tolist(), mask, strict=True) if m]
    by_element = mask.astype(a.dtype)
    by_bit = np.array([sum(int(mask[8 * byte + bit]) << bit for bit in range(8)) for byte in range(8)], np.uint8)
    head = 128 // a.dtype.itemsize
    for name, selector in (("filter", by_element), ("filter_bitindex", by_bit)):
        result = np.full(64, 99).astype(a.dtype)
        run(name, result, a, selector)
        assert result.tolist() == chosen + [99] * (64 - len(chosen))
        in_place = a.copy()
        run(name, in_place, in_place, selector)
        assert in_place.tolist()[: len(chosen)] == chosen
    for name, selector in (("select", by_element), ("select_bitindex", by_bit)):
        result = np.full(head + max(64, head), 99).astype(a.dtype)
        run(name, result, a, selector)
        assert result.view(np.uint32)[0] == len(chosen)
        assert result[head:].tolist()[: len(chosen)] == chosen
        padded = -(-len(chosen) // head) * head
        assert set(result[head:].tolist()[len(chosen) : padded]) <= {0}
    for name, selector in (("maskmove", by_element), ("maskmove_bitindex", by_bit)):
        result = np.full(64, 99).astype(a.dtype)
        assert run(name, result, a, selector).tolist() == [
            x if m else 99 for x, m in zip(a.tolist(), mask, strict=True)
        ]
    other = values(64, kind)
    blend = run("mask_select", np.empty_like(a), by_element, a, other)
    assert blend.tolist() == [x if m else y for x, y, m in zip(a.tolist(), other.tolist(), mask, strict=True)]


@pytest.mark.parametrize("name", BITINDEX)
def test_comparisons_to_bits(name: str) -> None:
    a, b = values(64, "float32", low=-2, high=2), values(64, "float32", low=-2, high=2)
    got = run(name, np.zeros(2, np.float32), a, b).view(np.uint8)
    bits = [(int(got[i // 8]) >> (i % 8)) & 1 for i in range(64)]
    assert bits == [BITINDEX[name](x, y) for x, y in zip(a.tolist(), b.tolist(), strict=True)]


@pytest.mark.parametrize(("kind", "target"), [("int16", "int32"), ("float32", "float32"), ("int8", "int16")])
def test_integral(kind: str, target: str) -> None:
    source = values(192, kind, low=-2, high=2)
    side = 64 // source.dtype.itemsize
    kernel = np.zeros(4096 // source.dtype.itemsize, source.dtype)
    kernel[: side * side] = np.tril(np.ones((side, side))).reshape(-1)
    got = run("integral", np.empty(192, dtype_of(target)), source, kernel)
    total = 0.0
    for x, y in zip(source.tolist(), got.tolist(), strict=True):
        total += x
        assert y == total


@pytest.mark.parametrize(("kind", "target"), [("int8", "int32"), ("int16", "float32"), ("float16", "float32")])
def test_histogram(kind: str, target: str) -> None:
    source = values(256, kind)
    lanes = 64 // source.itemsize
    kernel = np.repeat(np.arange(-32, 32).astype(kind), lanes)
    expected = [sum(float(x) == k for x in source.tolist()) for k in range(-32, 32)]
    assert run("histogram", np.empty(64, target), source, kernel).tolist() == expected
