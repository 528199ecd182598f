"""The index on one core: its NRAM, and the row numbers that vector instructions make of it for `__gather`.

Before arch 592 the loops that copy work out their addresses themselves (`mlusim.memory.addresses`). From then on the
vector pipe does, for a whole tile: convert to one width, take the columns apart, wrap negative values, multiply and
add. What depends on the place of a lookup alone is a table in NRAM.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from mlusim.hardware import Board
from mlusim.kernels.indexing import Extents, copy_box, front
from mlusim.memory.addresses import Addresses
from mlusim.memory.view import View

if TYPE_CHECKING:
    from mlusim.cores.core import Core


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexForm:
    """What a core makes of index tuples, which decides the NRAM that they take.

    Attributes:
        columns: index values of a lookup.
        positional: whether the row depends on the place of the lookup, too.
        narrowed: columns of which a window is left.
        wide: whether row numbers need 64 bits.
    """

    columns: int
    positional: bool
    narrowed: int
    wide: bool

    def width(self) -> int:
        """Bytes of a row number."""
        return 8 if self.wide else 4

    def buffers(self, index_itemsize: int) -> dict[str, int]:
        """Bytes for each lookup of the buffers beside the index that offsets take on arch 592, by name."""
        width = self.width()
        sizes = {"converted": self.columns * width} if index_itemsize != width else {}
        if index_itemsize <= width:
            # An index of 64 bits that goes on with 32 leaves the other half of its buffer free for these.
            sizes["spare"] = width
            if self.narrowed:
                sizes["mask"] = width
            if self.columns > 1:
                sizes["columns"] = self.columns * width
        if self.positional:
            sizes["places"] = width
        return sizes

    def buffer_bytes(self, board: Board, index_itemsize: int) -> tuple[int, ...]:
        """Bytes for each lookup of every buffer of NRAM that `IndexTiles` takes on a board."""
        if not self.columns:
            return ()
        made = self.buffers(index_itemsize).values() if board.has_gather else ()
        return (self.columns * index_itemsize, *made)

    def vector_cycles(self, board: Board, lookups: int) -> int:
        """Cycles of the vector instructions that make offsets of as many lookups."""
        instructions = 5 * self.columns + 3 * self.narrowed + 2 * self.positional + 2
        beats = -(-lookups * self.width() // board.vector_bytes_per_cycle)
        return instructions * (board.vector_startup_cycles + beats)


class IndexTiles:
    """The NRAM of one core for the index tuples of a tile, and for the offsets that arch 592 makes of them.

    Args:
        core: the core.
        dtype: element type of the index.
        lookups: the most lookups of a tile.
        form: what has to be made of them.
    """

    def __init__(self, core: Core, dtype: np.dtype[Any], lookups: int, form: IndexForm) -> None:
        self._core = core
        self._form = form
        self._index = core.nram.alloc(lookups * form.columns, dtype, "index")
        self._loaded = cache(partial(front, self._index))
        if core.board.has_gather:
            width = np.dtype(f"i{form.width()}")
            sizes = form.buffers(dtype.itemsize)
            self._buffers = {
                name: core.nram.alloc(lookups * size // width.itemsize, width, name) for name, size in sizes.items()
            }
            self._work = cache(self._workspace)
            self._places_of: tuple[Extents, Extents] | None = None

    async def load(self, index: View) -> View:
        """Load a box of the index; its last axis is that of the columns."""
        loaded = self._loaded(index.shape)
        await copy_box(self._core, loaded, index)
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
        for column, (axis, plane) in enumerate(zip(addresses.axes, work.planes, strict=True)):
            core.lt(spare, plane, 0)
            core.mul(spare, spare, axis.extent)
            core.add(plane, plane, spare)
            if axis.start:
                core.sub(plane, plane, axis.start)
            if axis.narrowed:
                # Below the window is negative, and as an unsigned number beyond every window.
                unsigned = np.dtype(f"u{plane.itemsize}")
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
            core.add(work.planes[0], work.planes[0], self._places(addresses))
        if addresses.base:
            core.add(work.planes[0], work.planes[0], addresses.base)
        return work.planes[0], mask

    def _workspace(self, count: int) -> _Workspace:
        """The buffers as as many lookups use them."""
        columns, width = self._form.columns, np.dtype(f"i{self._form.width()}")
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

    def _places(self, addresses: Addresses) -> View:
        """The part of the rows that depends on the place of the lookup, made once for a shape: by doubling."""
        core, table = self._core, self._buffers["places"]
        wanted = (addresses.shape, addresses.steps)
        if wanted != self._places_of:
            self._places_of = wanted
            core.fill(table[:1], 0)
            inner = 1
            for extent, step in zip(reversed(addresses.shape), reversed(addresses.steps), strict=True):
                done = 1
                while done < extent:
                    more = min(done, extent - done)
                    core.add(table[done * inner : (done + more) * inner], table[: more * inner], done * step)
                    done += more
                inner *= extent
        return table[: addresses.count]


class _Workspace(NamedTuple):
    """Views of an index tile on its way to offsets; planes are the rows of `transposed`, one for each column."""

    loaded: View
    converted: View
    transposed: View
    planes: tuple[View, ...]
    spare: View
    mask: View
