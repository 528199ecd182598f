"""The index on one core: its NRAM, and the row numbers that vector instructions compute from it.

Before arch 592 the loops that copy work out their addresses themselves (`mlusim.memory.addresses`). From then on the
vector pipe does, for a whole tile: convert to one width, take the columns apart, wrap negative values, multiply and
add. What depends on the place of a lookup alone is a table in NRAM.
"""

from __future__ import annotations

import math
from functools import cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from mlusim.errors import PlanError
from mlusim.kernels.boxes import copy_box, copy_box_async, front
from mlusim.memory.addresses import Addresses
from mlusim.memory.view import View
from mlusim.planning.index_arithmetic import LOADED_REPEATS, IndexArithmetic
from mlusim.planning.lookup_geometry import Extents

if TYPE_CHECKING:
    from mlusim.cores.core import Core


class IndexTiles:
    """The NRAM of one core for the index tuples of a tile, and for the offsets that arch 592 makes of them.

    Args:
        core: the core.
        dtype: element type of the index.
        lookups: the most lookups of a tile.
        arithmetic: what has to be made of them.
    """

    def __init__(self, core: Core, dtype: np.dtype[Any], lookups: int, arithmetic: IndexArithmetic) -> None:
        self._core = core
        self._arithmetic = arithmetic
        self._lookups = lookups
        self._index = core.nram.alloc(lookups * arithmetic.columns, dtype, "index")
        self._loaded = cache(partial(front, self._index))
        width = np.dtype(f"i{arithmetic.width()}")
        self._buffers = {
            name: core.nram.alloc(lookups * size // width.itemsize, width, name)
            for name, size in arithmetic.buffers(core.board, dtype.itemsize).items()
        }
        self._work = cache(self._workspace)
        self._counted: dict[str, tuple[Extents, Extents]] = {}

    async def load(self, index: View) -> View:
        """Load a box of the index; its last axis is that of the columns.

        One that repeats along its first axes, with a stride of 0, is loaded once and repeated within NRAM; a single
        repetition is loaded, too, because on 2xx a contiguous move takes whole, aligned 128 B only (B).
        """
        loaded = self._loaded(index.shape)
        shared = next((axis for axis, stride in enumerate(index.strides) if stride), index.ndim)
        repeats = math.prod(index.shape[:shared])
        if repeats <= LOADED_REPEATS:
            await copy_box(self._core, loaded, index)
            return loaded
        rows = loaded.reshape(repeats, -1)
        await copy_box(self._core, rows[0], index[(0,) * shared].reshape(-1))
        await self._core.memcpy(rows[1:], rows[:1].broadcast_to(repeats - 1, rows.shape[1]))
        return loaded

    def load_async(self, index: View) -> View:
        """Issue the load of a box of the index; a sync must come before it is used."""
        loaded = self._loaded(index.shape)
        copy_box_async(self._core, loaded, index)
        return loaded

    def offsets(self, addresses: Addresses) -> tuple[View, View | None]:
        """Row numbers, and a mask of those within the windows, by vector instructions: what `__gather` takes.

        They are issued; a sync must come before their result is used.
        """
        core = self._core
        work = self._work(addresses.count)
        if work.converted is not work.loaded:
            core.convert(work.converted, work.loaded)
        if len(work.planes) > 1:
            core.transpose(work.transposed, work.converted)
        spare, mask = work.spare, None
        unsigned = np.dtype(f"u{self._arithmetic.width()}")
        for column, (axis, plane) in enumerate(zip(addresses.axes, work.planes, strict=True)):
            # As unsigned numbers, negative values are beyond every extent: the smaller of both is the one that counts.
            core.add(spare, plane, axis.extent)
            core.minequal(plane.view(unsigned), plane.view(unsigned), spare.view(unsigned))
            if axis.start:
                core.sub(plane, plane, axis.start)
            if axis.narrowed:
                inside = work.mask if mask is None else spare
                core.lt(inside.view(unsigned), plane.view(unsigned), axis.stop - axis.start)
                if mask is not None:
                    core.mul(mask, mask, inside)
                mask = work.mask
            if axis.step != 1:
                core.mul(plane, plane, axis.step)
            if column:
                core.add(work.planes[0], work.planes[0], plane)
        if addresses.positional:
            core.add(work.planes[0], work.planes[0], self._table("places", addresses.shape, addresses.steps))
        if addresses.base:
            core.add(work.planes[0], work.planes[0], addresses.base)
        return work.planes[0], mask

    def numbers(self, addresses: Addresses) -> tuple[View, View]:
        """Row numbers by vector instructions, which are issued, and a scratch of as many and as wide."""
        rows, _ = self.offsets(addresses)
        return rows, self._work(addresses.count).spare

    def _workspace(self, count: int) -> _Workspace:
        """The buffers as as many lookups use them."""
        columns, width = self._arithmetic.columns, np.dtype(f"i{self._arithmetic.width()}")
        flat = self._index[: count * columns]
        loaded = flat.reshape(count, columns)
        converted = loaded
        free = flat
        if "converted" in self._buffers:
            converted = front(self._buffers["converted"], (count, columns))
            free = flat.view(width)
        transposed = converted.reshape(columns, count)
        if columns > 1:
            if "columns" in self._buffers:
                transposed = front(self._buffers["columns"], (columns, count))
            else:
                transposed, free = free[: count * columns].reshape(columns, count), free[count * columns :]
        spare = self._buffers["spare"][:count] if "spare" in self._buffers else free[:count]
        mask = self._buffers["mask"][:count] if "mask" in self._buffers else free[free.size - count :]
        return _Workspace(loaded, converted, transposed, tuple(transposed), spare, mask)

    async def lists(self, addresses: Addresses) -> tuple[View, View, int]:
        """The row numbers of the lookups within the windows, the positions of those lookups, and their count."""
        core = self._core
        work = self._work(addresses.count)
        rows, mask = self.offsets(addresses)
        if mask is None:
            raise PlanError("a window that leaves nothing out has no need of lists: take the offsets as they are")
        positions = self._table("turns", (self._lookups,), (1,))[: addresses.count]
        count = await core.collect(work.spare, rows, mask, known=addresses)
        if count:
            # The row numbers are in the list: their place is free.
            await core.collect(rows, positions, mask, known=addresses)
        return work.spare[:count], rows[:count], count

    def _table(self, name: str, shape: Extents, steps: Extents) -> View:
        """Of a place the sum of its coordinates times steps, made once for a shape: by doubling."""
        core, table = self._core, self._buffers[name]
        if self._counted.get(name) != (shape, steps):
            self._counted[name] = (shape, steps)
            core.fill(table[:1], 0)
            inner = 1
            for extent, step in zip(reversed(shape), reversed(steps), strict=True):
                done = 1
                while done < extent:
                    more = min(done, extent - done)
                    core.add(table[done * inner : (done + more) * inner], table[: more * inner], done * step)
                    done += more
                inner *= extent
        return table[: math.prod(shape)]


class _Workspace(NamedTuple):
    """Views of an index tile on its way to offsets; planes are the rows of `transposed`, one for each column."""

    loaded: View
    converted: View
    transposed: View
    planes: tuple[View, ...]
    spare: View
    mask: View
