"""Pointers: an address and an element type, as in C."""

from __future__ import annotations

import numpy as np
import pytest

from mlusim.errors import AccessError, InputError
from mlusim.memory.allocation import Memory
from mlusim.memory.kinds import MemoryKind
from mlusim.memory.sizes import MemorySize
from mlusim.memory.view import Pointer, View


@pytest.fixture
def view() -> View:
    allocation = Memory(MemoryKind.GDRAM, "gdram", MemorySize(4096)).allocate(240, "input", 0)
    return View.of(allocation, (3, 20), np.dtype(np.float32))


@pytest.mark.parametrize(("dtype", "width"), [("float32", 4), ("half", 2), ("int8", 1), ("int64", 8)])
def test_plus_counts_elements(view: View, dtype: str, width: int) -> None:
    pointer = view.pointer.cast(dtype)
    assert [(pointer + n).offset for n in (0, 1, 7)] == [0, width, 7 * width]
    assert (pointer + 7 - 2).offset == 5 * width
    assert (pointer + np.int32(3)).offset == 3 * width
    assert (pointer + 5).dtype == pointer.dtype


def test_a_pointer_of_a_slice_is_its_first_element(view: View) -> None:
    assert view[1, 2:].pointer.offset == (20 + 2) * 4
    assert view[2, ::-1].pointer.offset == (40 + 19) * 4
    assert view.pointer.memory is MemoryKind.GDRAM


def test_cast_keeps_the_address(view: View) -> None:
    pointer = (view.pointer + 3).cast("int8")
    assert (pointer.offset, pointer.dtype) == (12, np.dtype(np.int8))
    assert (pointer + 4).offset == 16
    with pytest.raises(InputError, match=r"^dtype 'char' is not an element type"):
        pointer.cast("char")


def test_a_pointer_may_point_outside_until_it_is_used(view: View) -> None:
    assert (view.pointer - 1).offset == -4
    assert (view.pointer + 1000).offset == 4000


@pytest.mark.parametrize("wrong", [1.5, "1", None, True])
def test_pointer_arithmetic_takes_integers_only(view: View, wrong: object) -> None:
    for move in (view.pointer.__add__, view.pointer.__sub__):
        with pytest.raises(
            AccessError, match=r"^a pointer moves by whole elements, and .* is not an integer: divide by"
        ):
            move(wrong)


def test_the_repr_of_a_pointer_is_c_like(view: View) -> None:
    assert repr(view.pointer + 2) == "<float32* into input (gdram) at byte 8>"
    assert isinstance(view.pointer, Pointer)
