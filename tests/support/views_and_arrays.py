"""Views of distinct elements with the same as a NumPy array, and keys inside their shapes."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from mlusim.memory.allocation import Memory
from mlusim.memory.kinds import MemoryKind
from mlusim.memory.sizes import MemorySize
from mlusim.memory.view import View

SHAPES = st.lists(st.integers(0, 5), max_size=4).map(tuple)


def view_and_array(shape: tuple[int, ...], dtype: Any = np.int32, name: str = "x") -> tuple[View, np.ndarray[Any, Any]]:
    """A view of distinct elements, and the same as a NumPy array."""
    array = np.arange(int(np.prod(shape)), dtype=np.int64).astype(dtype).reshape(shape)
    allocation = Memory(MemoryKind.NRAM, "nram", MemorySize(1 << 16)).allocate(array.nbytes, name, 0)
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
