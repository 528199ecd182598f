"""The kernels of scatter that sort the updates first; `planning.sorted_scatter` explains the two launches.

  scatter_sort         sorts the updates into bins, one per region of x
  scatter_regions      applies the updates of each region within NRAM
  scatter_sorted_rows  copies x to the output, then applies the updates of each region in GDRAM

All take (x, index, src, out, starts, updates, plan). The workspace contains the start of each bin of each chunk, and
the updates by chunk and bin, as bytes: first all rows, numbered within their region, then all values.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from mlusim.arrays import Integers
from mlusim.kernels.boxes import box_of, copy_box, copy_box_async, front
from mlusim.kernels.index_tiles import IndexTiles
from mlusim.memory.view import View
from mlusim.planning.plan import Plan
from mlusim.planning.sorted_scatter import SortedParameters

if TYPE_CHECKING:
    from mlusim.cores.core import Core


async def scatter_sort(
    core: Core, x: View, index: View, src: View, out: View, starts: View, updates: View, plan: Plan
) -> None:
    """The first launch: sort chunks of the updates by region."""
    if core.is_memory_core:
        return
    settings = plan.parameters_as(SortedParameters)
    lookups, binning = settings.lookups, settings.binning
    tuples = index.reshape(*lookups.positions, lookups.columns)
    sources = src if lookups.aligned else src.reshape(lookups.positions)
    whole_box = (0,) * x.ndim, x.shape
    reader = IndexTiles(core, index.dtype, binning.lookups_at_once, settings.index_arithmetic)
    values_buffer = core.nram.alloc(binning.lookups_at_once, x.dtype, "values")
    row_type = np.dtype(f"i{binning.width}")
    sorted_rows = core.nram.alloc(binning.lookups_at_once, row_type, "sorted rows")
    sorted_values = core.nram.alloc(binning.lookups_at_once, x.dtype, "sorted values")
    counters = None if settings.index_arithmetic.binned else core.nram.alloc(binning.bins, np.int32, "counters")
    stored_rows, stored_values = binning.sections(updates, x.dtype)
    chunks = [part[core.task_id :: core.task_dim].tolist() for part in binning.boxes(lookups)]
    for step, (first, low, high) in enumerate(zip(*chunks, strict=True)):
        start, stop = tuple(low), tuple(high)
        source, origin = box_of(sources, start, stop), box_of(tuples, start, stop)
        tile = reader.load_async(origin)
        copy_box_async(core, front(values_buffer, source.shape), source)
        await core.sync_io()
        addresses = lookups.addresses((start, stop), whole_box, tile, origin)
        # Where the row also depends on the position, the lookups of a chunk reach only a few bins, often just one.
        lowest, highest = addresses.base // binning.size, (addresses.base + addresses.pattern.reach) // binning.size
        addresses = addresses.relative_to(lowest * binning.size)
        count, bins = addresses.count, highest - lowest + 1
        to, values = (sorted_rows[:count], sorted_values[:count]), values_buffer[:count]
        if counters is not None:
            begins = await core.scalar_bins(*to, addresses, values, counters[:bins], size=binning.size)
        else:
            numbers, scratch = reader.numbers(addresses)
            if bins > 1:
                begins = await core.collect_bins(
                    *to, numbers, values, scratch, size=binning.size, bins=bins, known=addresses
                )
            else:
                await core.sync_compute()
                to, begins = (numbers, values), np.array([0, count])
        core.memcpy_async(stored_rows[first : first + count], to[0])
        core.memcpy_async(stored_values[first : first + count], to[1])
        bounds = np.empty(binning.bins + 1, np.int64)
        bounds[:lowest], bounds[lowest : highest + 2], bounds[highest + 2 :] = 0, begins, count
        core.store_array(starts[core.task_id + step * core.task_dim], bounds)
    await core.sync()


async def scatter_regions(
    core: Core, x: View, index: View, src: View, out: View, starts: View, updates: View, plan: Plan
) -> None:
    """The second launch: update the regions of x within NRAM, and store each once."""
    if core.is_memory_core:
        return
    settings = plan.parameters_as(SortedParameters)
    buffer = core.nram.alloc(settings.binning.size, x.dtype, "region")
    sorted_updates = _SortedUpdates(core, starts, updates, x.dtype, settings)
    flat_x, flat = x.reshape(-1), out.reshape(-1)
    for tile in plan.tiles_of(core.task_id):
        low, high = tile.start[0], tile.stop[0]
        region = buffer[: high - low]
        core.memcpy_async(region, flat_x[low:high])
        await sorted_updates.apply(region, low)
        await core.memcpy(flat[low:high], region)


async def scatter_sorted_rows(
    core: Core, x: View, index: View, src: View, out: View, starts: View, updates: View, plan: Plan
) -> None:
    """The second launch of strategy "rows": copy the regions of x to the output, and update them there."""
    if core.is_memory_core:
        return
    settings = plan.parameters_as(SortedParameters)
    flat_x, flat = x.reshape(-1), out.reshape(-1)
    with core.nram.scope():
        buffer = core.nram.alloc(settings.tile, x.dtype, "copied")
        for tile in plan.tiles_of(core.task_id):
            low, high = tile.start[0], tile.stop[0]
            await core.memcpy(buffer[: high - low], flat_x[low:high])
            await core.memcpy(flat[low:high], buffer[: high - low])
    sorted_updates = _SortedUpdates(core, starts, updates, x.dtype, settings)
    for region in settings.regions.of_task(core.task_id):
        await sorted_updates.apply(flat[region.start[0] : region.stop[0]], region.start[0])


class _SortedUpdates:
    """The updates that the first launch has sorted, list by list, in the NRAM of one core.

    Args:
        core: the core.
        starts, updates: the workspace in GDRAM: the start of each bin of each chunk; the updates, as bytes.
        dtype: element type of the values.
        settings: parameters of a plan of `plan_scatter`.
    """

    def __init__(
        self, core: Core, starts: View, updates: View, dtype: np.dtype[Any], settings: SortedParameters
    ) -> None:
        self._core = core
        self._starts, self._updates, self._dtype = starts, updates, dtype
        self._binning = binning = settings.binning
        self._list = core.nram.alloc(binning.updates_at_once * (binning.width + dtype.itemsize), np.uint8, "updates")
        self._bounds = core.nram.alloc((binning.bounds_at_once, 2), starts.dtype, "bounds")
        # Bytes of a row number and of a value, and where the rows and the values begin in the workspace.
        self._row_and_value = np.array([[binning.width], [dtype.itemsize]])
        self._sections = np.array([[0], [updates.size // (binning.width + dtype.itemsize) * binning.width]])
        # Most lists are full.
        self._parts: dict[int, tuple[View, View, View]] = {}
        self._firsts, _, _ = binning.boxes(settings.lookups)
        self._bins_reached = settings.lookups.reach(binning.sizes)
        self._lowest = binning.lowest_rows(settings.lookups)

    async def apply(self, region: View, low: int) -> None:
        """Apply the updates of a region, in order.

        Args:
            region: the region, in NRAM or in the output.
            low: the row of x at which it begins.
        """
        number = low // self._binning.size
        # Only these chunks have lookups that can reach the region.
        (chunks,) = ((self._lowest < low + region.size) & (self._lowest + self._bins_reached >= low)).nonzero()
        if not len(chunks):
            return
        for first in range(int(chunks[0]), int(chunks[-1]) + 1, self._binning.bounds_at_once):
            chunk_range = slice(first, min(first + self._binning.bounds_at_once, int(chunks[-1]) + 1))
            source = self._starts[chunk_range, number : number + 2]
            bounds = self._bounds[: source.shape[0]]
            await copy_box(self._core, bounds, source)
            begins, ends = (self._firsts[chunk_range, None] + await self._core.load_array(bounds, origin=source)).T
            runs = run_lists(begins, ends - begins, self._binning.updates_at_once)
            firsts, nbytes = runs.begins * self._row_and_value + self._sections, runs.lengths * self._row_and_value
            for count, part in runs.lists:
                await self._apply_list(region, count, firsts[:, part].reshape(-1), nbytes[:, part].reshape(-1))

    async def _apply_list(self, region: View, count: int, firsts: Integers, nbytes: Integers) -> None:
        """Load a list of updates from the workspace, and apply it.

        Args:
            region: what is updated.
            count: number of updates.
            firsts, nbytes: runs of bytes of the workspace: first all rows of the list, then their values.
        """
        core = self._core
        list_bytes, rows, values = self._parts_of(count)
        await core.memcpy_rows(list_bytes, self._updates, None, firsts, lengths=nbytes, blocking=False)
        if core.board.has_gather:
            core.scatter(region, values, rows)
            await core.sync()
        elif region.memory.off_chip:
            await core.memcpy_rows(region, values, rows, None, blocking=False)
        else:
            await core.scalar_copy(region, values, rows)

    def _parts_of(self, count: int) -> tuple[View, View, View]:
        """Return the front of the list for `count` updates, and in it their rows and their values."""
        parts = self._parts.get(count)
        if parts is not None:
            return parts
        list_bytes = self._list[: count * (self._binning.width + self._dtype.itemsize)]
        rows, values = list_bytes[: count * self._binning.width], list_bytes[count * self._binning.width :]
        parts = self._parts[count] = list_bytes, rows.view(f"i{self._binning.width}"), values.view(self._dtype)
        return parts


class RunLists(NamedTuple):
    """Runs of updates, divided into lists.

    Attributes:
        begins, lengths: the runs, divided further where a list ends.
        lists: for each list the number of its updates, and its runs.
    """

    begins: Integers
    lengths: Integers
    lists: list[tuple[int, slice]]


def run_lists(begins: Integers, lengths: Integers, capacity: int) -> RunLists:
    """Divide runs of updates into lists of `capacity` updates.

    Args:
        begins: first update of each run.
        lengths: updates of each run, possibly none.
        capacity: most updates of a list.
    """
    begins, lengths = begins[lengths > 0], lengths[lengths > 0]
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    cuts = [*range(0, total, capacity), total]
    # Counted in updates from the first run on, where parts of runs end, and the run of each.
    stops = np.concatenate((ends, np.arange(capacity, total, capacity)))
    stops.sort()
    parts = stops.copy()
    parts[1:] -= stops[:-1]
    # A list and a run may end together.
    stops, parts = stops[parts > 0], parts[parts > 0]
    run = ends.searchsorted(stops)
    first_parts = stops.searchsorted(cuts, "right").tolist()
    counts = [last - first for first, last in pairwise(cuts)]
    slices = [slice(first, last) for first, last in pairwise(first_parts)]
    return RunLists(begins[run] + stops - parts - (ends - lengths)[run], parts, list(zip(counts, slices, strict=True)))
