"""Overlap of strided boxes, and their shared runs, compared byte by byte."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlusim.log_tables import AllocationRecord, Box
from mlusim.verifier.accesses.coordinates import describe
from mlusim.verifier.accesses.geometry import Geometry, expand, geometry_of, group_rows, overlap, shared, union
from mlusim.verifier.accesses.row_geometry import geometry_of_rows


def bytes_of(box: Box, offset: int) -> set[int]:
    found = set()
    for index in itertools.product(*(range(extent) for extent in box.shape)):
        first = offset + sum(i * stride for i, stride in zip(index, box.strides, strict=True))
        found |= set(range(first, first + box.itemsize))
    return found


def covered(geometry: Geometry, offset: int) -> set[int]:
    return {byte for low, high in zip(*geometry.segments(), strict=True) for byte in range(offset + low, offset + high)}


@st.composite
def boxes(draw: st.DrawFn, rank: int = 3) -> Box:
    axes = draw(st.lists(st.tuples(st.integers(1, 5), st.integers(-24, 24)), max_size=rank))
    return Box(tuple(extent for extent, _ in axes), tuple(stride for _, stride in axes), draw(st.integers(1, 8)))


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(-1, 3))), st.booleans())
def test_all_pairs_of_rows_and_their_numbers(ranges, single):
    first = np.array([low for low, _ in ranges], np.int64)
    last = first + np.array([1 if single else count for _, count in ranges], np.int64)
    pairs = [(row, k) for row in range(len(first)) for k in range(first[row], last[row])]
    assert list(zip(*(part.tolist() for part in expand(first, last)), strict=True)) == pairs


@given(boxes(rank=4), st.integers(0, 50))
def test_a_geometry_is_the_bytes_of_its_box(box, offset):
    geometry = geometry_of(box)
    wanted = bytes_of(box, offset)
    assert covered(geometry, offset) == wanted
    assert (offset + geometry.start, offset + geometry.stop) == (min(wanted), max(wanted) + 1)
    starts, stops = geometry.segments()
    assert (starts[1:] >= stops[:-1]).all()
    assert (starts < stops).all()


@settings(max_examples=200)
@given(boxes(), boxes(), st.integers(-40, 40))
def test_overlap_is_that_of_the_bytes(one, other, offset):
    first, second = geometry_of(one), geometry_of(other)
    common = bytes_of(one, offset) & bytes_of(other, 0)
    assert overlap(first, offset, second, 0) == bool(common)
    runs = shared(first, offset, second, 0)
    assert {byte for low, high in zip(*runs, strict=True) for byte in range(low, high)} == common


@given(st.lists(st.integers(0, 12), min_size=1, max_size=8), st.integers(1, 9), boxes(rank=2), st.integers(-40, 40))
def test_overlap_of_rows_is_that_of_their_bytes(rows, stride, box, offset):
    row_bytes = 4
    geometry = geometry_of_rows(np.array(rows), stride, row_bytes)
    wanted = {byte for row in rows for byte in range(row * stride, row * stride + row_bytes)}
    assert covered(geometry, 0) == wanted
    assert overlap(geometry, 0, geometry_of(box), offset) == bool(wanted & bytes_of(box, offset))


@given(
    st.lists(st.integers(0, 12), min_size=1, max_size=9),
    st.sampled_from(["int64", "int32", "uint32", "uint8"]),
    st.sampled_from([-8, -4, -3, 1, 2, 4, 8]),
    st.sampled_from([1, 2, 4, 8, 12]),
    st.booleans(),
)
def test_rows_are_a_single_run_if_their_bytes_are(rows, kind, stride, row_bytes, many):
    numbers = np.array(rows * 20 if many else rows, kind)
    geometry = geometry_of_rows(numbers, stride, row_bytes)
    wanted = {byte for row in rows for byte in range(row * stride, row * stride + row_bytes)}
    assert (geometry.start, geometry.stop) == (min(wanted), max(wanted) + 1)
    assert geometry.single == (len(wanted) == geometry.stop - geometry.start)
    assert covered(geometry, 0) == wanted


def test_interleaved_columns_of_a_large_tensor_do_not_overlap():
    # [N, T, C, HW] float32 channels: their extents overlap, their bytes never do.
    column = geometry_of(Box((16, 784), (512 * 784 * 4, 4), 4))
    assert not overlap(column, 0, column, 784 * 4)
    assert overlap(column, 0, column, 784 * 4 - 1)
    assert column.loops == ((16, 512 * 784 * 4),)


def test_three_strides_that_divide_nothing_are_exact():
    # 1000 a + 33 b + 7 c against a point: a number theorist's question, answered without the bytes.
    box = geometry_of(Box((50, 30, 4), (1000, 33, 7), 1))
    point = geometry_of(Box((), (), 1))
    reached = {1000 * a + 33 * b + 7 * c for a in range(50) for b in range(30) for c in range(4)}
    assert all(overlap(box, 0, point, place) == (place in reached) for place in range(2100))


def test_a_box_without_elements_has_no_geometry():
    assert geometry_of(Box((3, 0), (4, 4), 4)) is None
    assert geometry_of_rows(np.array([], np.int64), 4, 4) is None


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(1, 9)), max_size=12))
def test_union_keeps_the_bytes_and_joins_what_touches(runs):
    starts = np.array([start for start, _ in runs], np.int64)
    stops = np.array([start + length for start, length in runs], np.int64)
    low, high = union(starts, stops)
    wanted = {byte for start, length in runs for byte in range(start, start + length)}
    assert {byte for first, last in zip(low, high, strict=True) for byte in range(first, last)} == wanted
    assert (low[1:] > high[:-1]).all()


def tensor(shape: tuple[int, ...], dtype: str = "float32") -> AllocationRecord:
    nbytes = int(np.prod(shape)) * np.dtype(dtype).itemsize
    return AllocationRecord("gdram", "the GDRAM", "out", 0, nbytes, -1, 0, dtype, shape, read_only=False)


@pytest.mark.parametrize(
    ("starts", "stops", "text"),
    [
        ([0], [4], "out[0, 0, 0], 4 B"),
        ([0], [96], "out[0:2, 0:3, 0:4], 96 B"),
        ([16], [48], "out[0, 1:3, 0:4], 32 B"),
        ([16, 64], [32, 80], "out[0:2, 1, 0:4], 32 B"),
        ([8], [24], "part of out[0, 0:2, 0:4], 16 B"),
        ([40], [56], "part of out[0:2, 0:3, 0:4], 16 B"),
        ([5], [6], "part of out[0, 0, 1], 1 B"),
    ],
)
def test_bytes_are_named_in_coordinates_of_the_tensor(starts, stops, text):
    assert describe(tensor((2, 3, 4)), np.array(starts), np.array(stops)) == text


@pytest.mark.parametrize("spread", [3, 1 << 40])
def test_equal_rows_are_grouped_in_the_order_of_a_sort(spread):
    """By a table of few values, and by sorting of many."""
    rng = np.random.default_rng(0)
    columns = rng.integers(-1, 2, 300) * spread, rng.integers(0, 2, 300).astype(bool), np.full(300, 7, np.int32)
    first, kind, times = group_rows(*columns)
    rows = list(zip(*(column.tolist() for column in columns), strict=True))
    groups = sorted(set(rows), key=lambda row: row[::-1])
    assert first.tolist() == [rows.index(group) for group in groups]
    assert kind.tolist() == [groups.index(row) for row in rows]
    assert times.tolist() == [rows.count(group) for group in groups]
