"""The index on one core: its NRAM, and the row numbers that vector instructions make of it for `__gather`.

Before arch 592 the loops that copy work out their addresses themselves (`mlusim.memory.addresses`). From then on the
vector pipe does, for a whole tile: convert to one width, take the columns apart, wrap negative values, multiply and
add. What depends on the place of a lookup alone is a table in NRAM.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

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

    def buffers(self, index_itemsize: int) -> dict[str, int]:
        """Bytes for each lookup of the buffers beside the index that offsets take on arch 592, by name."""
        width = 8 if self.wide else 4
        sizes = {"spare": width}
        if index_itemsize != width:
            sizes["converted"] = self.columns * width
        if self.columns > 1:
            sizes["columns"] = self.columns * width
        if self.positional:
            sizes["places"] = width
        if self.narrowed:
            sizes["mask"] = width
        return sizes

    def buffer_bytes(self, board: Board, index_itemsize: int) -> tuple[int, ...]:
        """Bytes for each lookup of every buffer of NRAM that `IndexTiles` takes on a board."""
        if not self.columns:
            return ()
        made = self.buffers(index_itemsize).values() if board.has_gather else ()
        return (self.columns * index_itemsize, *made)

    def vector_cycles(self, board: Board, lookups: int) -> int:
        """Cycles of the vector instructions that make offsets of as many lookups."""
        instructions = 5 * self.columns + 4 * self.narrowed + 2 * self.positional + 2
        beats = -(-lookups * (8 if self.wide else 4) // board.vector_bytes_per_cycle)
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
        elements = lookups * form.columns
        self._index = core.nram.alloc(elements, dtype, "index")
        self._made: tuple[Extents, Extents] | None = None
        if core.board.has_gather:
            width = np.dtype(np.int64 if form.wide else np.int32)
            names = form.buffers(dtype.itemsize)
            self._converted = core.nram.alloc(elements, width, "converted") if "converted" in names else self._index
            self._planes = core.nram.alloc(elements, width, "columns") if "columns" in names else self._converted
            self._spare = core.nram.alloc(lookups, width, "spare")
            self._table = core.nram.alloc(lookups, width, "places") if "places" in names else self._spare
            self._mask = core.nram.alloc(lookups, width, "mask") if "mask" in names else self._spare

    async def load(self, index: View) -> View:
        """Load a box of the index; its last axis is that of the columns."""
        loaded = front(self._index, index.shape)
        await copy_box(self._core, loaded, index)
        return loaded.reshape(-1)

    async def offsets(self, addresses: Addresses) -> tuple[View, View | None]:
        """Row numbers, and a mask of those within the windows, by vector instructions: what `__gather` takes."""
        core, count, columns = self._core, addresses.count, len(addresses.axes)
        if self._converted is not self._index:
            core.convert(self._converted[: count * columns], self._index[: count * columns])
        planes = front(self._planes, (columns, count))
        if columns > 1:
            core.transpose(planes, front(self._converted, (count, columns)))
        spare, mask = self._spare[:count], None
        for column, axis in enumerate(addresses.axes):
            plane = planes[column]
            core.lt(spare, plane, 0)
            core.mul(spare, spare, axis.extent)
            core.add(plane, plane, spare)
            if axis.narrowed:
                first = mask is None
                mask = self._mask[:count]
                core.ge(mask if first else spare, plane, axis.start)
                if not first:
                    core.mul(mask, mask, spare)
                core.lt(spare, plane, axis.stop)
                core.mul(mask, mask, spare)
            if axis.start:
                core.sub(plane, plane, axis.start)
            if axis.step != 1:
                core.mul(plane, plane, axis.step)
            if column:
                core.add(planes[0], planes[0], plane)
        if addresses.positional:
            core.add(planes[0], planes[0], self._places(addresses))
        if addresses.base:
            core.add(planes[0], planes[0], addresses.base)
        await core.sync_compute()
        return planes[0], mask

    def _places(self, addresses: Addresses) -> View:
        """The part of the rows that depends on the place of the lookup, made once for a shape: by doubling."""
        core, table = self._core, self._table
        wanted = (addresses.shape, addresses.steps)
        if wanted != self._made:
            self._made = wanted
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
