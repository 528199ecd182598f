"""Layout of elements in an allocation: shape, strides and dtype, one object per combination.

A kernel slices in the same few ways for millions of operations. So each layout is created once and looked up by its
values, derived properties are computed once, and caches use the object as their key: layouts compare by identity.
Equal layouts may be two objects if the first was evicted; caches then compute their entry again.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, lru_cache
from struct import Struct
from typing import Any

import numpy as np

# Codes of `struct` for element types of NumPy in the host's byte order.
_STRUCT_CODES = {
    np.dtype(name).str: code
    for name, code in zip(
        ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8"), "bBhHiIqQefd", strict=True
    )
}


class Layout:
    """Shape, strides and dtype, and properties derived from them. Created only by `layout_of`.

    Attributes:
        shape: elements along each axis.
        strides: bytes from one element to the next along each axis; may be 0 or negative.
        dtype: element type.
        itemsize: bytes per element.
        size: number of elements.
        nbytes: bytes of all elements.
        is_contiguous: whether elements follow each other in C order without gaps.
        low, high: range [low, high) of bytes that the elements span, gaps included, counted from the first element.
        unpack: function (buffer, offset) to a tuple with one element as a Python number, or None for element types that
            `struct` does not have.
        row: the layout without the first axis; for rank 0 the layout itself.
        parts: by count, the layout with that many elements along the first axis.
        cuts: by counts, the layout with those counts along the first axes; -1 drops an axis.
        reshaped: by shape, with or without an extent of -1, the layout of the same contiguous elements in that shape.
    """

    __slots__ = (
        "cuts",
        "dtype",
        "high",
        "is_contiguous",
        "itemsize",
        "low",
        "nbytes",
        "parts",
        "reshaped",
        "row",
        "shape",
        "size",
        "strides",
        "unpack",
    )

    def __init__(self, shape: tuple[int, ...], strides: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self.shape = shape
        self.strides = strides
        self.dtype = dtype
        self.itemsize = dtype.itemsize
        self.size = math.prod(shape)
        self.nbytes = self.size * dtype.itemsize
        self.is_contiguous = is_contiguous(shape, strides, dtype.itemsize)
        reaches = [(extent - 1) * stride for extent, stride in zip(shape, strides, strict=True)] if self.size else []
        self.low = sum(reach for reach in reaches if reach < 0)
        self.high = sum(reach for reach in reaches if reach > 0) + (dtype.itemsize if self.size else 0)
        self.unpack = _unpack(dtype)
        self.row = layout_of(shape[1:], strides[1:], dtype) if shape else self
        self.parts: dict[int, Layout] = _DerivedLayouts(self._first_rows)
        self.cuts: dict[tuple[int, ...], Layout] = _DerivedLayouts(self._cut)
        self.reshaped: dict[tuple[int, ...], Layout] = _DerivedLayouts(self._reshape)

    def _first_rows(self, count: int) -> Layout:
        return layout_of((count, *self.shape[1:]), self.strides, self.dtype)

    def _cut(self, counts: tuple[int, ...]) -> Layout:
        axes_cut = len(counts)
        axes = [axis for axis, count in enumerate(counts) if count >= 0]
        shape = (*(counts[axis] for axis in axes), *self.shape[axes_cut:])
        strides = (*(self.strides[axis] for axis in axes), *self.strides[axes_cut:])
        return layout_of(shape, strides, self.dtype)

    def _reshape(self, shape: tuple[int, ...]) -> Layout:
        return layout_of(shape, contiguous_strides(shape, self.itemsize), self.dtype)


@cache
def _unpack(dtype: np.dtype[Any]) -> Callable[[Any, int], tuple[Any, ...]] | None:
    code = _STRUCT_CODES.get(dtype.str) if dtype.isbuiltin == 1 else None
    return None if code is None else Struct(f"={code}").unpack_from


class _DerivedLayouts(dict[Any, Layout]):
    """Layouts derived from another, created at the first lookup. Looking up an existing one makes no call in Python."""

    __slots__ = ("_create",)

    def __init__(self, create: Callable[[Any], Layout]) -> None:
        super().__init__()
        self._create = create

    def __missing__(self, key: Any) -> Layout:
        layout = self[key] = self._create(key)
        return layout


@lru_cache(maxsize=65536)
def layout_of(shape: tuple[int, ...], strides: tuple[int, ...], dtype: np.dtype[Any]) -> Layout:
    """Return the layout with these values."""
    return Layout(shape, strides, dtype)


@lru_cache(maxsize=4096)
def contiguous_strides(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """Return the strides in bytes of a C-contiguous array."""
    strides = []
    stride = itemsize
    for extent in reversed(shape):
        strides.append(stride)
        stride *= extent
    return tuple(reversed(strides))


def is_contiguous(shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> bool:
    """Return whether strides in bytes are those of a C-contiguous tensor; strides of axes of extent 1 are ignored."""
    if strides == contiguous_strides(shape, itemsize) or 0 in shape:
        return True
    contiguous_stride = itemsize
    for extent, stride in zip(reversed(shape), reversed(strides), strict=True):
        if extent != 1:
            if stride != contiguous_stride:
                return False
            contiguous_stride *= extent
    return True
