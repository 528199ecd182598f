"""The kernels of scatter and scatter_nd: a copy of x in which updates replace the elements addressed by the index.

  scatter_slab   updates boxes of the output within NRAM and stores each once
  scatter_rows   copies x to the output, then accesses GDRAM for each update

`sorted_scatter` first sorts the updates, in a launch of its own.

The kernels take (x, index, src, out, plan) and follow a plan of `planning.scatter`. If an element has several updates,
the last in row-major order wins: one core applies all updates of an element, in that order. index contains the tuples
in its last axis: int32 or int64, negative values included. src may be larger than the index.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from typing import TYPE_CHECKING

from mlusim.kernels.boxes import box_of, copy_box, copy_box_async, front_views
from mlusim.kernels.index_tiles import IndexTiles
from mlusim.kernels.sorted_scatter import scatter_regions, scatter_sort, scatter_sorted_rows
from mlusim.memory.addresses import Addresses
from mlusim.memory.view import View
from mlusim.planning.box_sizes import Extents
from mlusim.planning.lookup import LookupParameters
from mlusim.planning.lookup_cost import SCALAR
from mlusim.planning.lookup_geometry import Box, Lookups
from mlusim.planning.plan import Plan
from mlusim.planning.scatter import ScatterParameters
from mlusim.planning.scatter_chunk import Chunk
from mlusim.planning.sorted_scatter import SortedParameters
from mlusim.planning.tiles import Tile

if TYPE_CHECKING:
    from mlusim.cores.core import Core, Kernel


def kernels_of(plan: Plan) -> tuple[Kernel, ...]:
    """Return the kernels that follow a plan of `plan_scatter`, in launch order."""
    in_gdram = plan.parameters_as(LookupParameters).strategy == "rows"
    if isinstance(plan.parameters, SortedParameters):
        return scatter_sort, scatter_sorted_rows if in_gdram else scatter_regions
    return (scatter_rows if in_gdram else scatter_slab,)


async def scatter_slab(core: Core, x: View, index: View, src: View, out: View, plan: Plan) -> None:
    """Tiers 1 and 2: load a box of x, update it in NRAM, store it."""
    if core.is_memory_core:
        return
    settings = plan.parameters_as(ScatterParameters)
    lookups = settings.lookups
    slabs = front_views(core.nram.alloc(settings.tile, x.dtype, "slab"))
    updates = Updates(core, index, src, settings, settings.chunk) if settings.chunk else None
    for tile in plan.tiles_of(core.task_id):
        slab = slabs(tile.shape)
        part_of_src = _part_of_src(lookups, tile, src) if updates is None else None
        if part_of_src is None or part_of_src.shape != slab.shape:
            await copy_box(core, slab, box_of(x, tile.start, tile.stop))
        if part_of_src is not None:
            await copy_box(core, box_of(slab, (0,) * slab.ndim, part_of_src.shape), part_of_src)
        if updates is not None:
            box = (tile.start, tile.stop)
            row = 0 if lookups.aligned else math.prod(tile.shape[lookups.columns :])
            await updates.apply(box, box, partial(_all_rows, slabs(tile.shape, row)))
        await copy_box(core, box_of(out, tile.start, tile.stop), slab)


def _all_rows(rows: View, _: Box) -> View:
    """Return all rows of a slab, which is as wide as a chunk of values."""
    return rows


async def scatter_rows(core: Core, x: View, index: View, src: View, out: View, plan: Plan) -> None:
    """Tier 3: copy the regions of this core, then apply each of their updates in GDRAM."""
    if core.is_memory_core:
        return
    settings = plan.parameters_as(ScatterParameters)
    lookups = settings.lookups
    with core.nram.scope():
        staged_in = front_views(core.nram.alloc(settings.tile, x.dtype, "copied"))
        for tile in plan.tiles_of(core.task_id):
            staged = staged_in(tile.shape)
            await copy_box(core, staged, box_of(x, tile.start, tile.stop))
            await copy_box(core, box_of(out, tile.start, tile.stop), staged)
    assert settings.chunk is not None
    updates = Updates(core, index, src, settings, settings.chunk)
    for region in settings.regions.of_task(core.task_id):
        await updates.apply((region.start, region.stop), ((0,) * x.ndim, x.shape), partial(lookups.rows_of, out))


class Updates:
    """The updates of one core, chunk by chunk.

    Args:
        core: the core.
        index, src: tensors in GDRAM.
        settings: parameters of a plan of `plan_scatter`.
        chunk: the updates handled at once.
    """

    def __init__(self, core: Core, index: View, src: View, settings: ScatterParameters, chunk: Chunk) -> None:
        self._core = core
        self._lookups = settings.lookups
        self._chunk = chunk
        self._method = settings.method
        self._tuples = index.reshape(*self._lookups.positions, self._lookups.columns)
        self._src = src
        self._reader = IndexTiles(core, index.dtype, self._chunk.lookups_at_once, settings.index_arithmetic)
        self._listed = settings.index_arithmetic.lists(core.board)
        self._numbered = core.board.has_gather or settings.index_arithmetic.numbered
        if self._chunk.values_at_once:
            values = core.nram.alloc(self._chunk.values_at_once * self._chunk.row, src.dtype, "values")
            self._values_in = front_views(values)

    async def apply(self, window: Box, numbered_box: Box, rows_for: Callable[[Box], View]) -> None:
        """Apply the updates of a box of the output, in order.

        Args:
            window: the box.
            numbered_box: the box in which rows are numbered.
            rows_for: returns these rows, or the part of them that a chunk of values covers.
        """
        core, lookups = self._core, self._lookups
        rank = len(lookups.positions)
        for start, stop in _chunks(lookups, lookups.values_of(*window), self._chunk.sizes):
            origin = box_of(self._tuples, start[:rank], stop[:rank])
            index = await self._reader.load(origin)
            addresses = lookups.addresses((start, stop), numbered_box, index, origin, window=window)
            rows = rows_for((start, stop))
            if self._chunk.fetch:
                await self._fetch(rows, self._rows_of_src(start, stop), addresses)
                continue
            source = box_of(self._src, start, stop)
            loaded_values = self._values_in(source.shape)
            values = self._values_in(source.shape, rows.shape[1] if rows.ndim > 1 else 0)
            if self._listed:
                copy_box_async(core, loaded_values, source)
                to, positions, count = await self._reader.lists(addresses)
                await core.sync_io()
                if count:
                    await self._copy(rows, values, to, positions)
            elif self._numbered:
                copy_box_async(core, loaded_values, source)
                offsets, _ = self._reader.offsets(addresses)
                await core.sync()
                if core.board.has_gather:
                    core.scatter(rows, values, offsets)
                    await core.sync()
                else:
                    await self._copy(rows, values, offsets, None)
            else:
                await copy_box(core, loaded_values, source)
                await self._copy(rows, values, addresses, None)

    async def _copy(self, rows: View, values: View, to: Addresses | View, positions: View | None) -> None:
        """Copy values to rows of NRAM or GDRAM, one after another.

        Args:
            rows: the rows of the output, or of a box of it in NRAM.
            values: a row of each update, in NRAM.
            to: the number of the row that each update replaces.
            positions: the updates to apply, as numbers of rows of values; None for all.
        """
        if self._method == SCALAR:
            await self._core.scalar_copy(rows, values, to, positions)
        else:
            await self._core.memcpy_rows(rows, values, to, positions, blocking=False)

    async def _fetch(self, rows: View, source: View, addresses: Addresses) -> None:
        """Copy the listed rows of src to rows of NRAM, or through NRAM to rows of GDRAM.

        Args:
            rows: the rows of the output, or of a box of it in NRAM.
            source: the rows of src of a chunk of updates.
            addresses: the row that each of them replaces; those outside the box are not listed.
        """
        core = self._core
        to, positions, count = await self._reader.lists(addresses)
        if not self._chunk.values_at_once:
            if count:
                await core.memcpy_rows(rows, source, to, positions, blocking=False)
            return
        for first in range(0, count, self._chunk.values_at_once):
            part = slice(first, min(first + self._chunk.values_at_once, count))
            values = self._values_in((part.stop - first, *rows.shape[1:]))
            await core.memcpy_rows(values, source, None, positions[part], blocking=False)
            await core.memcpy_rows(rows, values, to[part], None, blocking=False)

    def _rows_of_src(self, start: Extents, stop: Extents) -> View:
        """Return the rows of src for a chunk of lookups; they are contiguous, as the chunk's inner axes are whole."""
        lookups = self._lookups
        rank = len(lookups.positions)
        rows = self._src.reshape(math.prod(lookups.positions), -1)
        low, first = 0, 0
        for axis, extent in enumerate(lookups.value_shape):
            if axis < rank:
                low = low * extent + start[axis]
            else:
                first = first * extent + start[axis]
        sizes = [high - begin for begin, high in zip(start, stop, strict=True)]
        return rows[low : low + math.prod(sizes[:rank]), first : first + math.prod(sizes[rank:])]


def _chunks(lookups: Lookups, values: Box, sizes: Extents) -> Iterator[Box]:
    """Yield boxes of the values: for each part of the shared axes all parts of the gathered ones, in row-major order.

    Updates of one element have the same shared coordinates, so each element receives its updates in row-major order.

    Args:
        lookups: the axes of the values.
        values: the box that is divided.
        sizes: largest extent of a part along each axis.
    """
    axes = (*lookups.shared_axes, *lookups.gathered_axes)
    starts = [range(values[0][axis], values[1][axis], sizes[axis]) for axis in axes]
    for corner in product(*starts):
        start = [0] * len(sizes)
        for axis, position in zip(axes, corner, strict=True):
            start[axis] = position
        stop = [min(low + size, high) for low, size, high in zip(start, sizes, values[1], strict=True)]
        yield tuple(start), tuple(stop)


def _part_of_src(lookups: Lookups, tile: Tile, src: View) -> View | None:
    """Return the part of src that replaces a tile if the index has no columns: each lookup replaces all."""
    start, stop = lookups.values_of(tile.start, tile.stop)
    if any(low >= high for low, high in zip(start, stop, strict=True)) or lookups.columns:
        return None
    return src[
        tuple(
            # All lookups replace the same elements: the last one wins.
            slice(start[axis], stop[axis]) if to is not None else stop[axis] - 1
            for axis, to in enumerate(lookups.x_axes)
        )
    ]
