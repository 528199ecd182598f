"""Slicing of views in general: any key, and the errors of keys outside.

`View.__getitem__` has a shortcut for the keys that kernels use most.
"""

from __future__ import annotations

from operator import index as as_index
from types import EllipsisType
from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np

from mlusim.errors import AccessError, shown
from mlusim.memory.layout import Layout, layout_of

if TYPE_CHECKING:
    from mlusim.memory.view import View

Key = SupportsIndex | slice | EllipsisType


def slice_layout(view: View, key: Key | tuple[Key, ...]) -> tuple[int, Layout]:
    """Return offset and layout of a slice. Raises `AccessError` as `View.__getitem__`."""
    shape, strides, offset = view.shape, view.strides, view.offset
    items: tuple[Any, ...] = key if type(key) is tuple else (key,)
    rank = len(shape)
    new_shape: list[int] = []
    new_strides: list[int] = []
    axis = 0
    for item in items:
        if item is Ellipsis:
            if sum(entry is Ellipsis for entry in items) > 1:  # an array among the items has no single truth value
                raise AccessError(f"two `...` in one index of {view!r}: only one may stand for the axes left out")
            whole_axes = (slice(None),) * (rank - len(items) + 1)
            return slice_layout(view, items[:axis] + whole_axes + items[axis + 1 :])
        if axis >= rank:
            raise AccessError(
                f"{len(items)} {'index' if len(items) == 1 else 'indices'} on {view!r} of rank {rank}; "
                f"drop {len(items) - rank}"
            )
        extent = shape[axis]
        if type(item) is slice:
            start, count, step = _range(item, extent, axis, view)
            if count:
                offset += start * strides[axis]
            new_shape.append(count)
            new_strides.append(step * strides[axis])
        else:
            position = _integer(item, axis, view)
            if not 0 <= position < extent:
                advice = "; a view does not count from the end" if position < 0 else ""
                raise AccessError(f"index {position} is outside axis {axis} of {view!r}, which has {extent}{advice}")
            offset += position * strides[axis]
        axis += 1
    if axis < rank:
        new_shape += shape[axis:]
        new_strides += strides[axis:]
    return offset, layout_of(tuple(new_shape), tuple(new_strides), view.dtype)


def _range(item: slice, extent: int, axis: int, view: View) -> tuple[int, int, int]:
    """Return start, count and step of a slice; raises where Python would clamp."""
    step = 1 if item.step is None else _integer(item.step, axis, view)
    if step == 0:
        raise AccessError(f"a slice step of 0 on axis {axis} of {view!r}")
    # A forward slice may end one past the last element; a backward one may not begin there.
    limit = extent if step > 0 else extent - 1
    start = (0 if step > 0 else limit) if item.start is None else _integer(item.start, axis, view)
    stop = (extent if step > 0 else -1) if item.stop is None else _integer(item.stop, axis, view)
    if (item.start is not None and not 0 <= start <= limit) or (item.stop is not None and not 0 <= stop <= limit):
        step_text = "" if item.step is None else f":{item.step}"
        past = step > 0 and stop > limit >= start >= 0
        remedy = f"; end it at min({stop}, {extent})" if past and start < extent else ""
        if step > 0 and -extent <= stop < 0 <= start:
            remedy = f"; end it at {extent + stop}"
        if step > 0 and -extent <= start < 0 <= stop <= limit:
            remedy = f"; begin it at {extent + start}" if item.stop is None else f"; begin it at max({start}, 0)"
        raise AccessError(
            f"slice [{'' if item.start is None else item.start}:{'' if item.stop is None else item.stop}{step_text}] "
            f"is outside axis {axis} of {view!r}, which has {extent}; a view neither clamps nor counts from the "
            f"end{remedy}"
        )
    return start, max(0, -(-(stop - start) // step)), step


def _integer(item: Any, axis: int, view: View) -> int:
    if type(item) is int:
        number: int = item
        return number
    if isinstance(item, bool | np.bool_):
        raise AccessError(f"{item!r} cannot index axis {axis} of {view!r}: a view takes integers, slices and `...`")
    try:
        return as_index(item)
    except TypeError:
        remedy = "gather elements with core.gather or a counted loop"
        if isinstance(item, float | np.floating):
            remedy = "divide integers by `//`"
        raise AccessError(
            f"{shown(item)} cannot index axis {axis} of {view!r}: a view takes integers, slices and `...`; {remedy}"
        ) from None
