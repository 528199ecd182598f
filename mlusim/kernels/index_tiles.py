"""The index on one core: its NRAM, and the row numbers that vector instructions compute from it.

Before arch 592, copy loops can compute their own addresses (`mlusim.memory.addresses`). The vector pipe computes them
for a whole tile from arch 592 on, and from arch 300 on if a window filters the lookups or it is faster: convert to one
width, separate the columns, wrap negative values, multiply and add. The part of an address that depends only on the
position of a lookup is a table in NRAM.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from mlusim.errors import PlanError
from mlusim.kernels.boxes import copy_box, copy_box_async, front, front_views
from mlusim.memory.addresses import Addresses
from mlusim.memory.view import View
from mlusim.planning.box_sizes import Extents
from mlusim.planning.index_arithmetic import LOADED_REPEATS, IndexArithmetic

if TYPE_CHECKING:
    from mlusim.cores.core import Core

# (extent, step) of each axis.
_Axes = tuple[tuple[int, int], ...]


class IndexTiles:
    """The NRAM of one core for the index tuples of a tile and, from arch 592 on, for the offsets computed from them.

    Args:
        core: the core.
        dtype: element type of the index.
        lookups: largest number of lookups in a tile.
        arithmetic: the address arithmetic.
    """

    def __init__(self, core: Core, dtype: np.dtype[Any], lookups: int, arithmetic: IndexArithmetic) -> None:
        self._core = core
        self._arithmetic = arithmetic
        self._lookups = lookups
        self._index = core.nram.alloc(lookups * arithmetic.columns, dtype, "index")
        self._loaded = front_views(self._index)
        width = np.dtype(f"i{arithmetic.width()}")
        self._buffers = {
            name: core.nram.alloc(lookups * size // width.itemsize, width, name)
            for name, size in arithmetic.buffers(core.board, dtype.itemsize).items()
        }
        # Tiles have few sizes.
        self._workspaces: dict[int, _Workspace] = {}
        self._table_axes: dict[str, _Axes] = {}

    async def load(self, index: View) -> View:
        """Load a box of the index; its last axis is the columns.

        An index that repeats along its first axes, with stride 0, is loaded once and repeated within NRAM. A single
        repetition is loaded as well, because a contiguous move on 2xx copies whole, aligned 128 B only (B).
        """
        target = self._loaded(index.shape)
        shared_axes = next((axis for axis, stride in enumerate(index.strides) if stride), index.ndim)
        repeats = math.prod(index.shape[:shared_axes])
        if repeats <= LOADED_REPEATS:
            await copy_box(self._core, target, index)
            return target
        rows = target.reshape(repeats, -1)
        await copy_box(self._core, rows[0], index[(0,) * shared_axes].reshape(-1))
        await self._core.memcpy(rows[1:], rows[:1].broadcast_to(repeats - 1, rows.shape[1]))
        return target

    def load_async(self, index: View) -> View:
        """Issue the load of a box of the index; a sync is required before it is used."""
        target = self._loaded(index.shape)
        copy_box_async(self._core, target, index)
        return target

    def offsets(self, addresses: Addresses) -> tuple[View, View | None]:
        """Compute row numbers (the offsets of `__gather`) and a mask of those within the windows.

        The vector instructions are issued; a sync is required before the results are used.
        """
        core = self._core
        workspace = self._workspace_of(addresses.count)
        if workspace.converted is not workspace.loaded:
            core.convert(workspace.converted, workspace.loaded)
        if len(workspace.planes) > 1:
            core.transpose(workspace.transposed, workspace.converted)
        scratch, mask = workspace.scratch, None
        for column, (axis, plane) in enumerate(zip(addresses.axes, workspace.planes, strict=True)):
            magnitude = workspace.magnitudes[column]
            # As unsigned numbers, negative values exceed every extent: the minimum with value + extent wraps them.
            core.add(scratch, plane, axis.extent)
            core.minequal(magnitude, magnitude, workspace.scratch_magnitude)
            if axis.start:
                core.sub(plane, plane, axis.start)
            if axis.narrowed:
                mask_bits = workspace.mask_magnitude if mask is None else workspace.scratch_magnitude
                core.lt(mask_bits, magnitude, axis.stop - axis.start)
                if mask is not None:
                    core.mul(mask, mask, scratch)
                mask = workspace.mask
            if axis.step != 1:
                core.mul(plane, plane, axis.step)
            if column:
                core.add(workspace.planes[0], workspace.planes[0], plane)
        if addresses.positional:
            core.add(
                workspace.planes[0],
                workspace.planes[0],
                self._table("positional rows", addresses.shape, addresses.steps),
            )
        if addresses.base:
            core.add(workspace.planes[0], workspace.planes[0], addresses.base)
        return workspace.planes[0], mask

    def numbers(self, addresses: Addresses) -> tuple[View, View]:
        """Issue the vector instructions that compute row numbers; return them with a scratch buffer of equal size."""
        rows, _ = self.offsets(addresses)
        return rows, self._workspace_of(addresses.count).scratch

    def _workspace_of(self, count: int) -> _Workspace:
        """Return views of the buffers for `count` lookups."""
        workspace = self._workspaces.get(count)
        if workspace is None:
            workspace = self._workspaces[count] = self._new_workspace(count)
        return workspace

    def _new_workspace(self, count: int) -> _Workspace:
        columns, width = self._arithmetic.columns, np.dtype(f"i{self._arithmetic.width()}")
        flat = self._index[: count * columns]
        tile = flat.reshape(count, columns)
        converted = tile
        free_bytes = flat
        if "converted" in self._buffers:
            converted = front(self._buffers["converted"], (count, columns))
            free_bytes = flat.view(width)
        transposed = converted.reshape(columns, count)
        if columns > 1:
            if "columns" in self._buffers:
                transposed = front(self._buffers["columns"], (columns, count))
            else:
                transposed, free_bytes = (
                    free_bytes[: count * columns].reshape(columns, count),
                    free_bytes[count * columns :],
                )
        scratch = self._buffers["spare"][:count] if "spare" in self._buffers else free_bytes[:count]
        mask = self._buffers["mask"][:count] if "mask" in self._buffers else free_bytes[free_bytes.size - count :]
        planes = tuple(transposed)
        unsigned = np.dtype(f"u{self._arithmetic.width()}")
        magnitudes = tuple(plane.view(unsigned) for plane in planes)
        return _Workspace(
            tile, converted, transposed, planes, scratch, mask, magnitudes, scratch.view(unsigned), mask.view(unsigned)
        )

    async def lists(self, addresses: Addresses) -> tuple[View, View, int]:
        """Return the row numbers of the lookups within the windows, the positions of these lookups, and their count."""
        core = self._core
        workspace = self._workspace_of(addresses.count)
        rows, mask = self.offsets(addresses)
        if mask is None:
            raise PlanError("a window that excludes nothing needs no lists: use the offsets as they are")
        positions = self._table("positions", (self._lookups,), (1,))[: addresses.count]
        count = await core.collect(workspace.scratch, rows, mask, known=addresses)
        if count:
            # The row numbers have been copied to the list, so their buffer is free.
            await core.collect(rows, positions, mask, known=addresses)
        return workspace.scratch[:count], rows[:count], count

    def _table(self, name: str, shape: Extents, steps: Extents) -> View:
        """Return a table of sum(coordinate * step) by position, computed by doubling.

        A box that is smaller along its first axis uses the front of the table of a larger one.
        """
        core, table = self._core, self._buffers[name]
        axes = tuple((extent, step) for extent, step in zip(shape, steps, strict=True) if extent > 1)
        if name not in self._table_axes or not _is_front(axes, self._table_axes[name]):
            self._table_axes[name] = axes
            # All lookups along the last axes, whose step is 0, have the same number.
            outer = list(axes)
            inner = 1
            while outer and not outer[-1][1]:
                inner *= outer.pop()[0]
            core.fill(table[:inner], 0)
            for extent, step in reversed(outer):
                entries = 1
                while entries < extent:
                    step_count = min(entries, extent - entries)
                    core.add(
                        table[entries * inner : (entries + step_count) * inner],
                        table[: step_count * inner],
                        entries * step,
                    )
                    entries += step_count
                inner *= extent
        return table[: math.prod(shape)]


def _is_front(axes: _Axes, table: _Axes) -> bool:
    """Return whether a table over `axes` is the front of one over the axes of `table`."""
    if not axes or len(axes) > len(table):
        return not axes
    (extent, step), *inner = axes
    (limit, table_step), *others = table[-len(axes) :]
    return inner == others and step == table_step and extent <= limit


class _Workspace(NamedTuple):
    """Views of an index tile for computing offsets; planes are the rows of `transposed`, one per column.

    The magnitudes are the same bytes as unsigned numbers.
    """

    loaded: View
    converted: View
    transposed: View
    planes: tuple[View, ...]
    scratch: View
    mask: View
    magnitudes: tuple[View, ...]
    scratch_magnitude: View
    mask_magnitude: View
