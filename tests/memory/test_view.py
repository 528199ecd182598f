"""Views in other shapes, axes and element types, compared with NumPy."""

from __future__ import annotations

import copy
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlusim import dtypes
from mlusim.errors import AccessError, InputError
from mlusim.host.device import Device
from mlusim.memory.view import View, contiguous_strides
from views_and_arrays import SHAPES, assert_same, shapes_and_keys, view_and_array


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
    for wrong in ((0, 1), (0, 0, 1), (0, 1, 3), (-1, 0, 1), ((),)):
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
