"""Views and pointers: typed, strided ranges of an allocation.

A `View` has a dtype, a shape and strides in bytes, like a NumPy array; slicing returns another view and copies
nothing. It is stricter than NumPy: an index or slice outside the shape is an error, never clamped, and negative
indices are not allowed. A `Pointer` is that of C: an address and an element type, for the documented byte form of
`__memcpy`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from mlusim.arrays import Array
from mlusim.dtypes import RAW, dtype_name, dtype_of
from mlusim.errors import AccessError, shown
from mlusim.inputs import as_shape, check_is
from mlusim.memory.allocation import Allocation
from mlusim.memory.docstrings import restore_docstring
from mlusim.memory.kinds import MemoryKind
from mlusim.memory.layout import Layout, contiguous_strides, layout_of
from mlusim.memory.not_numeric import refuse_numbers
from mlusim.memory.slicing import Key, slice_layout

# Rows that a buffer caches: kernels use the same few buffers in turn.
_ROWS = 16


class View:
    """A typed, strided window on one allocation.

    Attributes:
        allocation: the allocation it refers to.
        offset: byte offset of its first element in the allocation.
        layout: shape, strides and dtype.
        elements: cached result of `typed`, or None. Internal.
        rows: cached rows of an on-chip buffer, by index, or None. Internal.
    """

    __slots__ = ("allocation", "elements", "layout", "offset", "rows")

    def __init__(self, allocation: Allocation, offset: int, layout: Layout, elements: Array | None = None) -> None:
        self.allocation = allocation
        self.offset = offset
        self.layout = layout
        self.elements = elements
        self.rows: dict[Any, View] | None = None

    @classmethod
    def of(cls, allocation: Any, shape: Any, dtype: np.dtype[Any], offset: int = 0) -> View:
        """Return a C-contiguous view at byte `offset` of an allocation."""
        check_is("allocation", allocation, Allocation, "core.nram.alloc and device.alloc return views; slice those")
        extents = as_shape("shape", shape)
        return cls.strided(allocation, offset, extents, contiguous_strides(extents, dtype.itemsize), dtype)

    @classmethod
    def strided(
        cls,
        allocation: Allocation,
        offset: int,
        shape: tuple[int, ...],
        strides: tuple[int, ...],
        dtype: np.dtype[Any],
    ) -> View:
        """Return a view at byte `offset` of an allocation, with strides in bytes."""
        return View(allocation, offset, layout_of(shape, strides, dtype))

    @property
    def memory(self) -> MemoryKind:
        """Kind of memory that contains it."""
        return self.allocation.memory.kind

    @property
    def shape(self) -> tuple[int, ...]:
        """Elements along each axis."""
        return self.layout.shape

    @property
    def strides(self) -> tuple[int, ...]:
        """Bytes from one element to the next along each axis; may be 0 or negative."""
        return self.layout.strides

    @property
    def dtype(self) -> np.dtype[Any]:
        """Element type."""
        return self.layout.dtype

    @property
    def itemsize(self) -> int:
        """Bytes per element."""
        return self.layout.itemsize

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.layout.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return self.layout.size

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self.layout.nbytes

    @property
    def pointer(self) -> Pointer:
        """Pointer to the first element, with the same dtype."""
        return Pointer(self.allocation, self.offset, self.dtype)

    @property
    def is_contiguous(self) -> bool:
        """Whether elements follow each other in C order without gaps."""
        return self.layout.is_contiguous

    def __repr__(self) -> str:
        return f"<view of {self.allocation.name} ({self.memory.value}): {dtype_name(self.dtype)} {list(self.shape)}>"

    def __str__(self) -> str:
        """Return the view and the values in memory now; within a kernel `core.peek(view)` is up to date."""
        if self.allocation.buffer is None:
            return repr(self)
        return f"{self!r}\n{np.array2string(self.typed(), threshold=64)}"

    def __copy__(self) -> View:
        return View(self.allocation, self.offset, self.layout, self.elements)

    def __bool__(self) -> bool:
        # Replaced, as all operators of numbers, by `refuse_numbers`. A compiled class without any would accept none.
        raise NotImplementedError

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a view of rank 0")
        return self.shape[0]

    def __iter__(self) -> Iterator[View]:
        return (self[position] for position in range(len(self)))

    def __getitem__(self, key: Key | tuple[Key, ...]) -> View:
        """Slice; the result is a view of the same bytes.

        Raises `AccessError` for an index or bound outside the axis, too many indices, or a step of 0.
        """
        # Optimised, because every copy of every kernel passes here: a row, a range of the first axis, and plain indices
        # and ranges of several axes are looked up in the layout. `slice_layout` computes the same in general.
        rows: dict[Any, View] | None = None
        if type(key) is int:
            rows = self.rows
            if rows is not None and key in rows:
                return rows[key]
        layout, offset = self.layout, self.offset
        shape, strides = layout.shape, layout.strides
        part = None
        if type(key) is int:
            if shape and 0 <= key < shape[0]:
                offset += key * strides[0]
                part = layout.row
        elif type(key) is slice and key.step is None and shape:
            start, stop = key.start, key.stop
            if start is None:
                start = 0
            if type(start) is type(stop) is int and 0 <= start < stop <= shape[0]:
                offset += start * strides[0]
                part = layout.parts[stop - start]
        elif type(key) is tuple and len(key) <= len(shape):
            byte = offset
            counts = []
            for item, extent, stride in zip(key, shape, strides):  # noqa: B905 - axes that it does not name stay whole
                if type(item) is int:
                    if not 0 <= item < extent:
                        break
                    byte += item * stride
                    counts.append(-1)
                elif type(item) is slice and item.step is None:
                    start, stop = item.start, item.stop
                    if start is None:
                        start = 0
                    if stop is None:
                        stop = extent
                    if not (type(start) is type(stop) is int and 0 <= start < stop <= extent):
                        break
                    byte += start * stride
                    counts.append(stop - start)
                else:
                    break
            else:
                offset, part = byte, layout.cuts[tuple(counts)]
        if part is None:
            offset, part = slice_layout(self, key)
        array = self.elements
        # Cheaper than creating an array, except for a single element, which would be a scalar.
        view = View(self.allocation, offset, part, array[key] if array is not None and part.shape else None)
        if rows is not None and len(rows) < _ROWS:
            rows[key] = view
        return view

    def reshape(self, *shape: int | tuple[int, ...]) -> View:
        """Return the same elements in another shape, in which one extent may be -1.

        Raises `AccessError` if the elements are not contiguous, or their number differs.
        """
        extents = _extents(shape)
        layout = self.layout.reshaped.get(extents)
        if layout is None:
            layout = self._reshaped_layout(extents)
        # If the array is cached, derive that of the new view from it.
        array = self.elements
        elements = array.reshape(layout.shape) if array is not None and extents else None
        return View(self.allocation, self.offset, layout, elements)

    def _reshaped_layout(self, extents: tuple[int, ...]) -> Layout:
        """Return the layout in another shape. Raises as `reshape`."""
        target = list(extents)
        layout = self.layout
        if -1 in target and target.count(-1) == 1:
            known_size = -math.prod(target)
            target[target.index(-1)] = layout.size // known_size if known_size else 0
        if math.prod(target) != layout.size or min(target, default=0) < 0:
            raise AccessError(
                f"cannot reshape {self!r} of {self.size} elements to {list(extents)}: both must have the same number "
                "of elements"
            )
        if not layout.is_contiguous:
            raise AccessError(f"cannot reshape {self!r}: its elements are not contiguous; copy it to a buffer first")
        result = layout.reshaped[extents] = layout.reshaped[tuple(target)]
        return result

    def view(self, dtype: object) -> View:
        """Return the same bytes as elements of another dtype; the last axis grows or shrinks with the element size.

        Raises `AccessError` if the last axis is not contiguous or its bytes are not a multiple of the new size.
        """
        target = dtype_of(dtype)
        if target.itemsize == self.itemsize:
            return View.strided(self.allocation, self.offset, self.shape, self.strides, target)
        if not self.shape or (self.shape[-1] != 1 and self.strides[-1] != self.itemsize):
            raise AccessError(f"cannot view {self!r} as {dtype_name(target)}: its last axis is not contiguous")
        row = self.shape[-1] * self.itemsize
        if row % target.itemsize:
            raise AccessError(
                f"cannot view {self!r} as {dtype_name(target)}: rows of {row} B are not a multiple of "
                f"{target.itemsize} B"
            )
        shape = (*self.shape[:-1], row // target.itemsize)
        return View.strided(self.allocation, self.offset, shape, (*self.strides[:-1], target.itemsize), target)

    def transpose(self, *axes: int | tuple[int, ...]) -> View:
        """Return the axes in another order, by default reversed. Raises `AccessError` unless each is named once."""
        order = _extents(axes) if axes else tuple(reversed(range(self.ndim)))
        if sorted(order) != list(range(self.ndim)):
            raise AccessError(f"transpose of {self!r} needs each of its {self.ndim} axes once, not {list(order)}")
        shape = tuple(self.shape[axis] for axis in order)
        strides = tuple(self.strides[axis] for axis in order)
        return View.strided(self.allocation, self.offset, shape, strides, self.dtype)

    def broadcast_to(self, *shape: int | tuple[int, ...]) -> View:
        """Repeat axes of extent 1 and add leading ones, with stride 0: a source that a copy reads repeatedly.

        Raises `AccessError` for a lower rank, and for another extent than 1 that differs.
        """
        shape = _extents(shape)
        added = len(shape) - self.ndim
        if added < 0:
            raise AccessError(f"cannot broadcast {self!r} to the lower rank of {list(shape)}")
        if min(shape, default=0) < 0:
            raise AccessError(f"cannot broadcast {self!r} to {list(shape)}: an extent cannot be negative")
        strides = [0] * added
        for extent, stride, target in zip(self.shape, self.strides, shape[added:], strict=True):
            if extent not in (target, 1):
                raise AccessError(f"cannot broadcast {self!r} to {list(shape)}: {extent} against {target}")
            strides.append(stride if extent == target else 0)
        return View.strided(self.allocation, self.offset, shape, tuple(strides), self.dtype)

    def raw(self) -> Array:
        """Return the elements as unsigned integers of the same width, for uninterpreted copies."""
        return self.typed().view(RAW[self.layout.itemsize])

    def typed(self) -> Array:
        """Return the elements as a NumPy array on the simulated bytes. Internal: kernels do not need it.

        The array is cached, and slices of the view derive theirs from it.
        """
        array = self.elements
        if array is None or self.allocation.buffer is None:
            return self._make_array()
        return array

    def first_number(self) -> Any:
        """Return the first element as a Python number. Internal: a kernel loads it, `await core.load(view)`."""
        buffer: Any = self.allocation.bytes()
        unpack = self.layout.unpack
        # Optimised: half the cost of an array.
        if unpack is not None:
            return unpack(buffer, self.offset)[0]
        return np.ndarray((), self.layout.dtype, buffer, self.offset).item()

    def _make_array(self) -> Array:
        buffer: Any = self.allocation.bytes()
        if 0 in self.shape:
            # NumPy checks the strides of an empty array too, and those of a reversed one point before the buffer.
            return np.empty(self.shape, self.dtype)
        self.elements = np.ndarray(self.shape, self.dtype, buffer, self.offset, self.strides)
        return self.elements


refuse_numbers(View)


class Pointer:
    """An address and an element type, as in C: `pointer + n` advances by n elements.

    A `char` buffer is a pointer with 1-byte elements (`cast("int8")`), so that `data_nram + n * sizeof(T)` counts bytes
    while `input + index` counts elements, as in BANG C.
    """

    __slots__ = ("allocation", "dtype", "offset")

    def __init__(self, allocation: Allocation, offset: int, dtype: np.dtype[Any]) -> None:
        self.allocation = allocation
        self.offset = offset
        self.dtype = dtype

    @property
    def memory(self) -> MemoryKind:
        """Kind of memory that it points into."""
        return self.allocation.memory.kind

    def cast(self, dtype: object) -> Pointer:
        """Return the same address with another element type. Raises `InputError` for an unknown one."""
        return Pointer(self.allocation, self.offset, dtype_of(dtype))

    def __copy__(self) -> Pointer:
        return self + 0

    def __add__(self, elements: Any) -> Pointer:
        return Pointer(self.allocation, self.offset + _distance(elements) * self.dtype.itemsize, self.dtype)

    def __sub__(self, elements: Any) -> Pointer:
        return self + -_distance(elements)

    def __repr__(self) -> str:
        return f"<{dtype_name(self.dtype)}* into {self.allocation.name} ({self.memory.value}) at byte {self.offset}>"


restore_docstring(View)
restore_docstring(Pointer)


def byte_span(view: View) -> tuple[int, int]:
    """Return the range [first, last) of bytes of its allocation that a view spans, gaps included."""
    return view.offset + view.layout.low, view.offset + view.layout.high


def _distance(elements: Any) -> int:
    """Return the distance that a pointer moves."""
    if not isinstance(elements, int | np.integer) or isinstance(elements, bool):
        raise AccessError(
            f"a pointer moves by whole elements, and {shown(elements)} is not an integer: divide by //, or round it"
        )
    return int(elements)


def _extents(shape: Any) -> tuple[int, ...]:
    """Return extents or axes given one by one or as one tuple."""
    items: Any = shape[0] if len(shape) == 1 and isinstance(shape[0], tuple | list) else shape
    all_int = True
    for item in items:
        if type(item) is not int:
            all_int = False
            if not isinstance(item, int | np.integer):
                raise AccessError(f"extents and axes of a view must be integers, not {shown(item)}")
    return tuple(items) if all_int else tuple(map(int, items))
