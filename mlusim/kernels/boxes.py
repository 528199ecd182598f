"""Copies of tensor boxes, by as few strided copies as the instruction's loops allow."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import cache, lru_cache
from typing import TYPE_CHECKING

from mlusim.hardware import Board
from mlusim.memory.view import View
from mlusim.planning.box_sizes import Extents
from mlusim.planning.split import MAX_SEGMENTS, max_loops

if TYPE_CHECKING:
    from mlusim.cores.core import Core


def box_of(view: View, start: Extents, stop: Extents) -> View:
    """Return a box of a view; axes beyond those of `start` stay whole."""
    return view[tuple(map(slice, start, stop))]


def front(buffer: View, shape: Extents) -> View:
    """Return the front of a flat buffer, reshaped."""
    return buffer[: math.prod(shape)].reshape(shape)


def front_views(buffer: View) -> Callable[..., View]:
    """Return a function that returns the front of a flat buffer in a shape, with a cache: tiles have few shapes.

    If it is called with a row size as well, the front consists of rows of that size, or of single elements for 0.
    """

    @cache
    def shaped(shape: Extents, row: int | None = None) -> View:
        view = front(buffer, shape)
        if row is None:
            return view
        return view.reshape(-1, row) if row else view.reshape(-1)

    return shaped


async def copy_box(core: Core, dst: View, src: View) -> None:
    """Copy a box of any rank and wait for it: one strided copy, or several if the instruction has too few loops."""
    if _is_one_copy(dst, src, core.board):
        await core.memcpy(dst, src)
    else:
        copy_box_async(core, dst, src)
        await core.sync_io()


def copy_box_async(core: Core, dst: View, src: View) -> None:
    """Issue the copies of a box; a sync is required before the data is used."""
    if _is_one_copy(dst, src, core.board):
        core.memcpy_async(dst, src)
    else:
        for box_copy in copies(dst, src, core.board):
            core.memcpy_async(*box_copy)


def _is_one_copy(dst: View, src: View, board: Board) -> bool:
    """Return whether one `__memcpy` can copy a box."""
    loops = _loops(dst.shape, dst.strides, src.strides, (dst.itemsize, src.itemsize))
    return len(loops) <= max_loops(board) and max(loops, default=(0, 0))[0] <= MAX_SEGMENTS


def copies(dst: View, src: View, board: Board) -> Iterator[tuple[View, View]]:
    """Split a copy into parts for one `__memcpy` each: at most `max_loops` loops of 65536 segments each."""
    loops = _loops(dst.shape, dst.strides, src.strides, (dst.itemsize, src.itemsize))
    if len(loops) > max_loops(board):
        # Unroll the loop with the fewest iterations, for the fewest instructions.
        _, axis = min(loops)
        for position in range(dst.shape[axis]):
            key = (slice(None),) * axis + (position,)
            yield from copies(dst[key], src[key], board)
        return
    longest = max(loops, default=(0, 0))
    if longest[0] > MAX_SEGMENTS:
        axis = longest[1]
        for start in range(0, dst.shape[axis], MAX_SEGMENTS):
            key = (slice(None),) * axis + (slice(start, min(start + MAX_SEGMENTS, dst.shape[axis])),)
            yield from copies(dst[key], src[key], board)
        return
    yield dst, src


@lru_cache(maxsize=4096)
def _loops(shape: Extents, dst: Extents, src: Extents, sizes: Extents) -> tuple[tuple[int, int], ...]:
    """Return (iterations, first axis) of the loops over segments that a copy needs, with adjacent axes merged.

    `dst` and `src` are strides, `sizes` the element sizes. Cached, as a kernel copies few distinct boxes.
    """
    loops: list[tuple[int, int]] = []
    last = (0, 0)
    for axis, (extent, dst_stride, src_stride) in enumerate(zip(shape, dst, src, strict=True)):
        if extent == 1:
            continue
        if loops and last == (extent * dst_stride, extent * src_stride):
            loops[-1] = (loops[-1][0] * extent, loops[-1][1])
        else:
            loops.append((extent, axis))
        last = (dst_stride, src_stride)
    if loops and last == sizes:
        loops.pop()
    return tuple(loops)
