"""The two kernels of scatter with strategy "bins"; `planning.scatter_bins` explains the two launches.

  scatter_sort     sorts the updates into bins, one per region of x
  scatter_regions  applies the updates of each region within NRAM

Both take (x, index, src, out, starts, *updates, plan). The workspace contains the start of each bin of each chunk, and
the updates by chunk and bin; rows and values are one tensor if they are equally wide.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from mlusim.kernels.boxes import boxed, copy_box_async, front
from mlusim.kernels.index_tiles import IndexTiles
from mlusim.memory.view import View
from mlusim.planning.lookup_cost import INSTRUCTION
from mlusim.planning.scatter_bins import BinsParameters

if TYPE_CHECKING:
    from mlusim.cores.core import Core

# Index of the first update in the workspace, and number of updates.
Run = tuple[int, int]


async def scatter_sort(core: Core, x: View, index: View, src: View, out: View, starts: View, *rest: Any) -> None:
    """The first launch: sort chunks of the updates by region."""
    del out
    *stored, plan = rest
    if core.is_memory_core:
        return
    settings = plan.parameters_as(BinsParameters)
    lookups, binning = settings.lookups, settings.binning
    tuples = index.reshape(*lookups.positions, lookups.columns)
    values = src if lookups.aligned else src.reshape(lookups.positions)
    target = (0,) * x.ndim, x.shape
    reader = IndexTiles(core, index.dtype, binning.lookups_at_once, settings.index_arithmetic)
    loaded = core.nram.alloc(binning.lookups_at_once, x.dtype, "values")
    updates = _Updates(core, stored, binning.lookups_at_once, x.dtype)
    chunks = [part[core.task_id :: core.task_dim].tolist() for part in binning.boxes(lookups)]
    for step, (first, low, high) in enumerate(zip(*chunks, strict=True)):
        start, stop = tuple(low), tuple(high)
        source, origin = boxed(values, start, stop), boxed(tuples, start, stop)
        tile = reader.load_async(origin)
        copy_box_async(core, front(loaded, source.shape), source)
        await core.sync_io()
        addresses = lookups.addresses((start, stop), target, tile, origin)
        numbers, mask = reader.numbers(addresses)
        count = addresses.count
        bin_starts = await core.collect_bins(
            updates.rows[:count],
            updates.values[:count],
            numbers,
            loaded[:count],
            mask,
            size=binning.size,
            bins=binning.bins,
            known=addresses,
        )
        updates.store(first, count)
        core.store_array(starts[core.task_id + step * core.task_dim], bin_starts)
    await core.sync()


async def scatter_regions(core: Core, x: View, index: View, src: View, out: View, starts: View, *rest: Any) -> None:
    """The second launch: update the regions of x within NRAM, and store each once."""
    del index, src
    *stored, plan = rest
    if core.is_memory_core:
        return
    tiles = list(plan.tiles_of(core.task_id))
    if not tiles:
        return
    settings = plan.parameters_as(BinsParameters)
    binning = settings.binning
    firsts, _, _ = binning.boxes(settings.lookups)
    buffer = core.nram.alloc(binning.size, x.dtype, "region")
    lists = [_Updates(core, stored, binning.updates_at_once, x.dtype) for _ in range(2)]
    by_instruction = settings.method == INSTRUCTION
    flat_x, flat = x.reshape(-1), out.reshape(-1)
    for tile in tiles:
        low, high = tile.start[0], tile.stop[0]
        region = buffer[: high - low]
        core.memcpy_async(region, flat_x[low:high])
        number = low // binning.size
        bounds = await core.load_array(starts[:, number : number + 2])
        begins, counts = firsts + bounds[:, 0], bounds[:, 1] - bounds[:, 0]
        runs = zip(begins.tolist(), counts.tolist(), strict=True)
        await _apply(core, region, lists, _batches(runs, binning.updates_at_once), by_instruction=by_instruction)
        await core.memcpy(flat[low:high], region)


async def _apply(
    core: Core, region: View, lists: list[_Updates], batches: Iterator[list[Run]], *, by_instruction: bool
) -> None:
    """Apply updates, in order, to a region that is still being loaded: update from one list while loading the other.

    The last updates may still be running on return; a blocking copy of the region waits for them.
    """
    ready = 0
    for step, batch in enumerate(batches):
        lists[step % 2].load(batch)
        if ready:
            await lists[1 - step % 2].update(region, ready, by_instruction=by_instruction)
        await core.sync()
        ready = sum(count for _, count in batch)
    if ready:
        await lists[step % 2].update(region, ready, by_instruction=by_instruction)


class _Updates:
    """A list of updates in NRAM, row numbers and values, and its tensors in the workspace."""

    def __init__(self, core: Core, stored: list[View], room: int, dtype: np.dtype[Any]) -> None:
        self._core = core
        # One tensor of two planes, or two tensors: the last axis indexes the updates.
        self._sides = [
            (core.nram.alloc((*tensor.shape[:-1], room), tensor.dtype, "updates"), tensor) for tensor in stored
        ]
        buffers = [buffer for buffer, _ in self._sides]
        self.rows, self.values = buffers if len(buffers) > 1 else (buffers[0][0], buffers[0][1].view(dtype))

    def store(self, first: int, count: int) -> None:
        """Issue the stores of the first `count` updates to the workspace, starting at update `first`."""
        for buffer, stored in self._sides:
            self._core.memcpy_async(_part(stored, first, count), _part(buffer, 0, count))

    def load(self, batch: list[Run]) -> None:
        """Issue back-to-back loads of runs of the workspace."""
        at = 0
        for first, count in batch:
            for buffer, stored in self._sides:
                self._core.memcpy_async(_part(buffer, at, count), _part(stored, first, count))
            at += count

    async def update(self, region: View, count: int, *, by_instruction: bool) -> None:
        """Apply the first `count` updates to a region."""
        rows, values = self.rows[:count], self.values[:count]
        if by_instruction:
            self._core.scatter(region, values, rows)
        else:
            await self._core.scalar_copy(region, values, rows, None)


def _part(updates: View, first: int, count: int) -> View:
    part = slice(first, first + count)
    return updates[part] if updates.ndim == 1 else updates[:, part]


def _batches(runs: Iterable[Run], updates_at_once: int) -> Iterator[list[Run]]:
    """Group runs into batches of up to `updates_at_once` updates, splitting runs that do not fit."""
    batch: list[Run] = []
    room = updates_at_once
    for start, length in runs:
        first, remaining = start, length
        while remaining:
            count = min(remaining, room)
            batch.append((first, count))
            first, remaining, room = first + count, remaining - count, room - count
            if not room:
                yield batch
                batch, room = [], updates_at_once
    if batch:
        yield batch
