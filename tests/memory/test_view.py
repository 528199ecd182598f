"""Views compared with NumPy: equal for every key inside the shape, an error for all others."""

from __future__ import annotations

import copy
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from mlusim import dtypes
from mlusim.errors import AccessError, InputError
from mlusim.host.device import Device
from mlusim.memory.allocation import Memory
from mlusim.memory.kinds import MemoryKind
from mlusim.memory.slicing import sliced
from mlusim.memory.view import View, contiguous_strides

SHAPES = st.lists(st.integers(0, 5), max_size=4).map(tuple)


def view_and_array(shape: tuple[int, ...], dtype: Any = np.int32, name: str = "x") -> tuple[View, np.ndarray[Any, Any]]:
    """A view of distinct elements, and the same as a NumPy array."""
    array = np.arange(int(np.prod(shape)), dtype=np.int64).astype(dtype).reshape(shape)
    allocation = Memory(MemoryKind.NRAM, "nram", 1 << 16).allocate(array.nbytes, name, 0)
    allocation.bytes()[:] = np.frombuffer(array.tobytes(), np.uint8)
    return View.of(allocation, shape, np.dtype(dtype)), array


def assert_same(view: View, array: np.ndarray[Any, Any]) -> None:
    assert view.shape == array.shape
    assert view.typed().dtype == view.dtype == array.dtype
    np.testing.assert_array_equal(view.typed(), array)


def inside(extent: int) -> st.SearchStrategy[Any]:
    """Indices and slices that lie in an axis, without counting from its end."""
    bound = st.none() | st.integers(0, extent)
    forward = st.builds(slice, bound, bound, st.none() | st.integers(1, 4))
    if not extent:
        return forward
    last = st.none() | st.integers(0, extent - 1)
    return st.integers(0, extent - 1) | forward | st.builds(slice, last, last, st.integers(-4, -1))


@st.composite
def shapes_and_keys(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[Any, ...]]:
    shape = draw(SHAPES)
    given_axes = draw(st.integers(0, len(shape)))
    gap = draw(st.integers(0, given_axes))
    ellipsis = draw(st.booleans())
    axes = [*range(gap), *range(len(shape) - given_axes + gap, len(shape))] if ellipsis else [*range(given_axes)]
    key = [draw(inside(shape[axis])) for axis in axes]
    if ellipsis:
        key.insert(gap, ...)
    return shape, tuple(key)


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


@pytest.mark.parametrize(
    ("shape", "new", "resolved"),
    [
        ((4, 6), (24,), (24,)),
        ((4, 6), (2, -1), (2, 12)),
        ((4, 6), (2, 2, 6), (2, 2, 6)),
        ((1,), (), ()),
        ((), (1, 1), (1, 1)),
        ((0, 3), (-1,), (0,)),
        ((0, 3), (3, 0), (3, 0)),
        ((0, 3), (-1, 3), (0, 3)),
    ],
)
def test_reshape(shape: tuple[int, ...], new: tuple[int, ...], resolved: tuple[int, ...]) -> None:
    view, array = view_and_array(shape)
    assert_same(view.reshape(*new), array.reshape(resolved))
    assert_same(view.reshape(new), array.reshape(resolved))


@pytest.mark.parametrize(
    ("new", "message"),
    [
        ((5, 5), "cannot reshape <view of x (nram): int32 [4, 6]> of 24 elements to [5, 5]"),
        ((-1, -1), "cannot reshape "),
        ((-1, 5), "cannot reshape "),
        ((-4, -6), "cannot reshape "),
        ((-2, 12), "cannot reshape "),
        ((), "cannot reshape "),
    ],
)
def test_reshape_to_another_count(new: tuple[int, ...], message: str) -> None:
    view, _ = view_and_array((4, 6))
    with pytest.raises(AccessError, match="^" + re.escape(message)):
        view.reshape(*new)


def test_reshape_needs_contiguous_elements() -> None:
    view, array = view_and_array((4, 6))
    assert_same(view[1:3].reshape(-1), array[1:3].reshape(-1))
    assert_same(view[2:3, 1:4].reshape(3), array[2, 1:4])
    with pytest.raises(AccessError, match=r"its elements are not contiguous; copy it to a buffer first$"):
        view[:, :3].reshape(12)


@given(shapes_and_keys())
def test_contiguity_matches_numpy(case: tuple[Any, Any]) -> None:
    shape, key = case
    view, array = view_and_array(shape)
    assert view[key].is_contiguous == array[key].flags.c_contiguous


def test_an_axis_of_one_has_any_stride() -> None:
    view, _ = view_and_array((4, 6))
    assert view[::4].is_contiguous
    assert View.strided(view.allocation, 0, (1, 6), (-1000, 4), view.dtype).is_contiguous


@pytest.mark.grid(3)
@pytest.mark.parametrize("old", dtypes.ALL, ids=str)
@pytest.mark.parametrize("new", dtypes.ALL, ids=str)
def test_view_as_another_type(old: np.dtype[Any], new: np.dtype[Any]) -> None:
    view, _ = view_and_array((3, 16), np.uint8)
    view = view.view(old)
    array = view.typed()
    again = view.view(new)
    assert again.typed().tobytes() == array.tobytes()
    assert again.shape == array.view(new).shape
    assert view.view(new)[1:, ...].typed().tobytes() == array[1:].tobytes()


def test_view_as_another_type_needs_a_whole_last_axis() -> None:
    view, array = view_and_array((4, 6), np.int16)
    assert_same(view[::2].view(np.int32), array[::2].view(np.int32))
    assert_same(view[:, 1:3].view(np.float32), array[:, 1:3].copy().view(np.float32))
    assert_same(view[:, :1].view(np.int8), array[:, :1].copy().view(np.int8))
    with pytest.raises(AccessError, match=r"^cannot view <.*> as int32: its last axis is not contiguous"):
        view[:, ::2].view(np.int32)
    with pytest.raises(AccessError, match=r"^cannot view <.*> as int64: rows of 12 B are not a multiple of 8 B"):
        view.view(np.int64)
    with pytest.raises(AccessError, match=r"its last axis is not contiguous"):
        view[0, 0].view(np.int8)
    with pytest.raises(InputError, match=r"^dtype 'nothing' is not an element type"):
        view.view("nothing")


def test_equal_widths_view_any_strides() -> None:
    view, array = view_and_array((4, 6), np.int32)
    assert_same(view[::-1, ::3].view(np.float32), array[::-1, ::3].view(np.float32))


@given(st.permutations(range(4)))
def test_transpose(axes: list[int]) -> None:
    view, array = view_and_array((2, 3, 4, 5))
    assert_same(view.transpose(*axes), array.transpose(axes))
    assert_same(view.transpose(tuple(axes))[1], array.transpose(axes)[1])


def test_transpose_of_nothing_reverses() -> None:
    view, array = view_and_array((2, 3, 4))
    assert_same(view.transpose(), array.T)
    for wrong in ((0, 1), (0, 0, 1), (0, 1, 3), (-1, 0, 1)):
        with pytest.raises(AccessError, match=r"^transpose of <.*> needs each of its 3 axes once, not \["):
            view.transpose(*wrong)


@pytest.mark.parametrize(
    ("shape", "new"), [((1,), (5,)), ((3, 1), (3, 4)), ((4,), (2, 3, 4)), ((), (2, 2)), ((1, 3), (0, 3)), ((2,), (2,))]
)
def test_broadcast_to(shape: tuple[int, ...], new: tuple[int, ...]) -> None:
    view, array = view_and_array(shape)
    assert_same(view.broadcast_to(*new), np.broadcast_to(array, new))
    assert view.broadcast_to(new).strides == np.broadcast_to(array, new).strides or 0 in new


@pytest.mark.parametrize(
    ("new", "message"),
    [
        ((3,), "to the lower rank of [3]"),
        ((3, 5), "to [3, 5]: 4 against 5"),
        ((3, -4), "to [3, -4]: an extent cannot be negative"),
        ((1, 4), "to [1, 4]: 3 against 1"),
    ],
)
def test_broadcast_to_an_incompatible_shape_is_an_error(new: tuple[int, ...], message: str) -> None:
    view, _ = view_and_array((3, 4))
    with pytest.raises(AccessError, match=rf"^cannot broadcast <.*> {re.escape(message)}$"):
        view.broadcast_to(*new)


@pytest.mark.parametrize("dtype", dtypes.ALL, ids=str)
def test_raw_is_bits(dtype: np.dtype[Any]) -> None:
    view, _ = view_and_array((64,), np.uint8)
    typed = view.view(dtype)
    assert typed.raw().tobytes() == view.typed().tobytes()
    assert typed.raw().dtype.itemsize == dtype.itemsize
    assert typed[::-1].raw().tobytes() == typed.typed()[::-1].tobytes()


@given(SHAPES)
def test_sizes(shape: tuple[int, ...]) -> None:
    view, array = view_and_array(shape, np.float64)
    assert (view.ndim, view.size, view.nbytes, view.itemsize) == (array.ndim, array.size, array.nbytes, 8)
    assert contiguous_strides(tuple(max(n, 1) for n in shape), 8) == np.empty([max(n, 1) for n in shape]).strides


def test_repr_names_the_memory_and_the_type() -> None:
    view, _ = view_and_array((2, 3), np.float16, "column")
    assert repr(view) == "<view of column (nram): float16 [2, 3]>"


@given(st.integers(0, 4), st.integers(0, 4), st.sampled_from(["float32", "bool", "bfloat16"]))
def test_the_fast_slicing_paths_match_the_general_one(start, stop, dtype):
    device = Device("mlu370-x4")
    view = device.alloc((5, 3, 2), dtype)
    view.typed().view(np.uint8).reshape(-1)[:] = np.arange(view.nbytes) % 256
    ranges = slice(start, max(start, stop) + 1), slice(None, stop + 1), slice(start, start)
    for key in (start, *ranges, (start, 1), (ranges[0], slice(1, 3)), (ranges[1], 2, slice(None)), (slice(None), 1)):
        part = view[key]
        offset, layout = sliced(view, key)
        assert (part.offset, part.shape, part.strides) == (offset, layout.shape, layout.strides)
        assert part.raw().tobytes() == view.raw()[key].tobytes()


def test_equal_layouts_are_one_object():
    view = Device("mlu370-x4").alloc((6, 4), "float32")
    assert view[1].layout is view[5].layout is view[2:3][0].layout
    assert view[1:3].layout is view[2:4].layout is not view[1:4].layout
    assert view[:, 1:3].layout is view[:, 2:4].layout


def test_an_attribute_that_a_view_lacks_cannot_be_set():
    """Whether or not the package is compiled: a misspelt name in a kernel is an error."""
    view = Device().alloc((4, 2), np.float32)
    for wrong in (view, view[0], view.pointer):
        with pytest.raises(AttributeError, match="has no attribute 'shpe'"):
            wrong.shpe = (8,)
    with pytest.raises(AttributeError):
        view.shape = (8,)


def test_copy_makes_another_view_of_the_same_bytes():
    view = Device().upload(np.arange(6, dtype=np.int16).reshape(3, 2), "x")[1:]
    other = copy.copy(view)
    assert other is not view
    assert (other.allocation, other.offset, other.layout) == (view.allocation, 4, view.layout)
    assert other.typed().tolist() == [[2, 3], [4, 5]]
    pointer = copy.copy(view.pointer)
    assert (pointer.allocation, pointer.offset, pointer.dtype) == (view.allocation, 4, np.int16)


@pytest.mark.parametrize("method", ["reshape", "transpose", "broadcast_to"])
@pytest.mark.parametrize("value", ["12", 12.0, None], ids=repr)
def test_extents_and_axes_other_than_integers_are_an_error(method: str, value: object) -> None:
    view, _ = view_and_array((3, 4))
    with pytest.raises(
        AccessError, match=rf"^extents and axes of a view must be integers, not {re.escape(repr(value))}$"
    ):
        getattr(view, method)(value)
