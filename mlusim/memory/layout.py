"""How elements lie in an allocation: shape, strides and element type, one object for each combination.

A kernel slices the same few ways for millions of operations. So a layout is made once and found again by its values,
what follows from it is worked out once, and caches take the object itself as their key: layouts compare by identity.
Two equal layouts may be two objects where the first has been forgotten; a cache then works out the same again.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np


class Layout:
    """Shape, strides and element type, and what follows from them. Made by `layout_of` alone.

    Attributes:
        shape: elements along each axis.
        strides: bytes from one element to the next along each axis; may be 0 or negative.
        dtype: element type.
        itemsize: bytes of an element.
        size: number of elements.
        nbytes: bytes of the elements.
        is_contiguous: whether elements follow each other in C order without gaps.
    """

    __slots__ = (
        "_cuts",
        "_parts",
        "_reshaped",
        "_row",
        "dtype",
        "is_contiguous",
        "itemsize",
        "nbytes",
        "shape",
        "size",
        "strides",
    )

    def __init__(self, shape: tuple[int, ...], strides: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self.shape = shape
        self.strides = strides
        self.dtype = dtype
        self.itemsize = dtype.itemsize
        self.size = math.prod(shape)
        self.nbytes = self.size * dtype.itemsize
        self.is_contiguous = is_contiguous(shape, strides, dtype.itemsize)
        self._row: Layout | None = None
        self._cuts: dict[tuple[int, ...], Layout] = {}
        self._parts: dict[int, Layout] = {}
        self._reshaped: dict[tuple[int, ...], Layout] = {}

    def row(self) -> Layout:
        """What is left without the first axis."""
        row = self._row
        if row is None:
            row = self._row = layout_of(self.shape[1:], self.strides[1:], self.dtype)
        return row

    def part(self, count: int) -> Layout:
        """The same with `count` elements along the first axis."""
        part = self._parts.get(count)
        if part is None:
            part = self._parts[count] = layout_of((count, *self.shape[1:]), self.strides, self.dtype)
        return part

    def cut(self, counts: tuple[int, ...]) -> Layout:
        """`counts` elements along the first axes; -1 where one is chosen, and the axis goes."""
        cut = self._cuts.get(counts)
        if cut is None:
            rest = len(counts)
            left = [axis for axis, count in enumerate(counts) if count >= 0]
            shape = (*(counts[axis] for axis in left), *self.shape[rest:])
            strides = (*(self.strides[axis] for axis in left), *self.strides[rest:])
            cut = self._cuts[counts] = layout_of(shape, strides, self.dtype)
        return cut

    def reshaped(self, shape: tuple[int, ...]) -> Layout:
        """As many contiguous elements in another shape."""
        found = self._reshaped.get(shape)
        if found is None:
            found = layout_of(shape, contiguous_strides(shape, self.itemsize), self.dtype)
            self._reshaped[shape] = found
        return found


@lru_cache(maxsize=65536)
def layout_of(shape: tuple[int, ...], strides: tuple[int, ...], dtype: np.dtype[Any]) -> Layout:
    """The layout of these values."""
    return Layout(shape, strides, dtype)


@lru_cache(maxsize=4096)
def contiguous_strides(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """Strides in bytes of a C-contiguous array."""
    strides = []
    stride = itemsize
    for extent in reversed(shape):
        strides.append(stride)
        stride *= extent
    return tuple(reversed(strides))


def is_contiguous(shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> bool:
    """Whether strides in bytes are those of a C-ordered tensor; those of axes of extent 1 play no part."""
    if strides == contiguous_strides(shape, itemsize) or 0 in shape:
        return True
    expected = itemsize
    for extent, stride in zip(reversed(shape), reversed(strides), strict=True):
        if extent != 1:
            if stride != expected:
                return False
            expected *= extent
    return True
