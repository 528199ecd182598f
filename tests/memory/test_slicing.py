"""Slices of views compared with NumPy: equal for every key inside the shape, an error for all others."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from mlusim.errors import AccessError
from mlusim.host.device import Device
from mlusim.memory.slicing import slice_layout
from views_and_arrays import SHAPES, assert_same, shapes_and_keys, view_and_array


@given(shapes_and_keys())
def test_slicing_matches_numpy(case: tuple[tuple[int, ...], tuple[Any, ...]]) -> None:
    shape, key = case
    view, array = view_and_array(shape)
    assert_same(view[key], array[key])
    assert (
        view[key].strides == array[key].strides
        or 0 in array[key].shape
        or not array[key].ndim
        or all(
            n == 1 or a == b for n, a, b in zip(array[key].shape, view[key].strides, array[key].strides, strict=True)
        )
    )


@given(shapes_and_keys(), shapes_and_keys())
def test_slicing_a_slice_matches_numpy(case: tuple[Any, Any], other: tuple[Any, Any]) -> None:
    shape, key = case
    view, array = view_and_array(shape, np.int16)
    view, array = view[key], array[key]
    try:
        expected = array[other[1]]
        deeper = view[other[1]]
    except (IndexError, AccessError):
        assume(False)
    assert_same(deeper, expected)


def test_numpy_integers_are_indices() -> None:
    view, array = view_and_array((4, 5))
    assert_same(view[np.int64(2), np.uint8(1) : np.int16(4)], array[2, 1:4])


def test_slicing_moves_nothing() -> None:
    view, _ = view_and_array((4, 5))
    column = view[:, 2]
    assert column.allocation is view.allocation
    view.typed()[3, 2] = 99
    assert column.typed()[3] == 99


@pytest.mark.parametrize(
    ("key", "message"),
    [
        (3, "index 3 is outside axis 0 of <view of x (nram): int32 [3, 4]>, which has 3"),
        (
            -1,
            "index -1 is outside axis 0 of <view of x (nram): int32 [3, 4]>, which has 3; a view does not count from ",
        ),
        ((0, 4), "index 4 is outside axis 1 "),
        ((0, 0, 0), "3 indices on <view of x (nram): int32 [3, 4]> of rank 2; drop 1"),
        ((..., 0, 0, 0), "3 indices on "),
        (
            slice(0, 4),
            "slice [0:4] is outside axis 0 of <view of x (nram): int32 [3, 4]>, which has 3; a view neither ",
        ),
        (slice(0, -1), "slice [0:-1] is outside axis 0"),
        (slice(-1, None), "slice [-1:] is outside axis 0"),
        (slice(-1, None, -1), "slice [-1::-1] is outside axis 0"),
        (slice(3, None, -1), "slice [3::-1] is outside axis 0"),
        (slice(2, -1, -1), "slice [2:-1:-1] is outside axis 0"),
        (slice(1, 7, -1), "slice [1:7:-1] is outside axis 0"),
        (slice(5, 2), "slice [5:2] is outside axis 0"),
        (slice(4, None), "slice [4:] is outside axis 0"),
        (slice(None, None, 0), "a slice step of 0 on axis 0"),
        (1.0, "1.0 cannot index axis 0 of <view of x (nram): int32 [3, 4]>: a view takes integers, slices and `...`; "),
        (
            1.5,
            "1.5 cannot index axis 0 of <view of x (nram): int32 [3, 4]>: a view takes integers, slices and `...`; di",
        ),
        (True, "True cannot index axis 0"),
        (None, "None cannot index axis 0"),
        ([0, 1], "[0, 1] cannot index axis 0"),
        (slice(0.0, 2), "0.0 cannot index axis 0"),
        ((..., np.arange(3)), "array([0, 1, 2]) cannot index axis 1"),
        ((..., ...), "two `...` in one index of <view of x (nram): int32 [3, 4]>: only one"),
    ],
)
def test_an_index_outside_is_an_error_and_never_clamped(key: Any, message: str) -> None:
    view, _ = view_and_array((3, 4))
    with pytest.raises(AccessError, match="^" + re.escape(message)):
        view[key]


def test_a_tile_past_the_end_is_told_the_end() -> None:
    view, _ = view_and_array((3, 4))
    with pytest.raises(AccessError, match=r"from the end; end it at min\(9, 3\)$"):
        view[1:9]
    with pytest.raises(AccessError, match=r"from the end$"):
        view[3:9]


def test_a_slice_from_the_end_is_told_its_begin() -> None:
    view, _ = view_and_array((3, 4))
    with pytest.raises(AccessError, match=r"from the end; begin it at 1$"):
        view[-2:]
    with pytest.raises(AccessError, match=r"from the end; begin it at max\(-2, 0\)$"):
        view[-2:2]
    with pytest.raises(AccessError, match=r"from the end$"):
        view[-4:]


@given(SHAPES, st.data())
def test_any_slice_lies_in_its_allocation(shape: tuple[int, ...], data: st.DataObject) -> None:
    """Any key at all: an error, or NumPy's elements where NumPy has the same, and never a byte outside."""
    view, array = view_and_array(shape)
    bound = st.none() | st.integers(-7, 7)
    step = st.none() | st.integers(-3, 3)
    key = tuple(data.draw(st.lists(st.integers(-6, 6) | st.builds(slice, bound, bound, step), max_size=5)))
    try:
        part = view[key]
    except AccessError:
        return
    assert_same(part, array[key])


BOUNDS = st.none() | st.integers(-7, 7) | st.booleans() | st.just(1.0)


@given(st.integers(0, 5), st.builds(slice, BOUNDS, BOUNDS, st.none() | st.integers(-2, 2)), st.booleans())
def test_a_slice_equals_a_tuple_with_that_slice(extent: int, key: slice, made: bool) -> None:
    view, array = view_and_array((extent,))
    if made:
        view.raw()
    try:
        expected = view[(key,)]
    except AccessError as error:
        with pytest.raises(AccessError, match="^" + re.escape(str(error)) + "$"):
            view[key]
        return
    assert_same(view[key], array[key])
    assert (view[key].offset, view[key].strides) == (expected.offset, expected.strides)
    np.testing.assert_array_equal(view[key].raw(), expected.raw())


def test_iteration_is_over_the_first_axis() -> None:
    view, array = view_and_array((3, 4))
    rows = list(view)
    assert len(rows) == len(view) == 3
    for row, expected in zip(rows, array, strict=True):
        assert_same(row, expected)
    with pytest.raises(TypeError, match=r"^len\(\) of a view of rank 0"):
        len(view[0, 0])


@given(st.integers(0, 4), st.integers(0, 4), st.sampled_from(["float32", "bool", "bfloat16"]))
def test_the_fast_slicing_paths_match_the_general_one(start, stop, dtype):
    device = Device("mlu370-x4")
    view = device.alloc((5, 3, 2), dtype)
    view.typed().view(np.uint8).reshape(-1)[:] = np.arange(view.nbytes) % 256
    ranges = slice(start, max(start, stop) + 1), slice(None, stop + 1), slice(start, start)
    for key in (start, *ranges, (start, 1), (ranges[0], slice(1, 3)), (ranges[1], 2, slice(None)), (slice(None), 1)):
        part = view[key]
        offset, layout = slice_layout(view, key)
        assert (part.offset, part.shape, part.strides) == (offset, layout.shape, layout.strides)
        assert part.raw().tobytes() == view.raw()[key].tobytes()


def test_equal_layouts_are_one_object():
    view = Device("mlu370-x4").alloc((6, 4), "float32")
    assert view[1].layout is view[5].layout is view[2:3][0].layout
    assert view[1:3].layout is view[2:4].layout is not view[1:4].layout
    assert view[:, 1:3].layout is view[:, 2:4].layout
