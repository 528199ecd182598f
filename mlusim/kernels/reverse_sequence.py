"""The kernel of reverse_sequence: the first L rows of each batch entry are reversed, the others copied.

  reverse_sequence_tiles   (x, lengths, out, plan): out[b, s] = x[b, L - 1 - s] for s < L, else x[b, s]

L is lengths[b], clamped to 0 and the rows of an entry. x and out are contiguous tensors with equally many elements in
GDRAM, lengths an int32 or int64 tensor there. The plan is that of `planning.reverse_sequence.plan_reverse_sequence`,
which explains entries and rows. Each task loads each length that it needs once. Address arithmetic and loops are not
charged to the scalar pipe.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from mlusim.kernels.boxes import boxed, front
from mlusim.kernels.pipeline import run_stages
from mlusim.memory.view import View
from mlusim.planning.plan import Plan
from mlusim.planning.reverse_sequence import EntryLayout, SequenceParameters
from mlusim.planning.tiles import Tile
from mlusim.units import round_up

if TYPE_CHECKING:
    from mlusim.cores.core import Core

_BACKWARD = slice(None, None, -1)


async def reverse_sequence_tiles(core: Core, x: View, lengths: View, out: View, plan: Plan) -> None:
    """Reverse tile by tile: while loading to NRAM, or by moves within it, as the plan says."""
    if core.is_memory_core:
        return
    settings = plan.parameters_as(SequenceParameters)
    layout = settings.layout
    source, target = x.reshape(layout.shape), out.reshape(layout.shape)
    entries = layout.by_entry(source)
    buffers = 2 if settings.overlapped else 1
    staged = settings.staged
    # On arch below 300 a contiguous move copies whole 128 B only (B), so bytes beyond the tile are moved with it.
    block = plan.board.vector_alignment_bytes // x.itemsize if core.board.needs_aligned_vectors else 1
    elements = round_up(settings.elements, block)
    results = [core.nram.alloc(elements, x.dtype, f"result {buffer}") for buffer in range(buffers)]
    loaded = results
    tiles = [*plan.tiles_of(core.task_id)]
    if staged:
        loaded = [core.nram.alloc(elements, x.dtype, f"loaded {buffer}") for buffer in range(buffers)]
        if any(math.prod(tile.shape) % block for tile in tiles):
            await clear(core, loaded)
    batch_lengths = Lengths(core, lengths, layout)

    async def load(position: int, tile: Tile) -> None:
        if staged and plan.tier == 1:
            core.memcpy_async(front(loaded[position % buffers], tile.shape), boxed(source, tile.start, tile.stop))
            return
        buffer = layout.by_entry(front(loaded[position % buffers], tile.shape))[0]
        outer, first, start, left = layout.ordered(tile.start)
        _, last, stop, right = layout.ordered(tile.stop)
        await batch_lengths.load(first, last)
        for index in range(last - first):
            entry = entries[outer, first + index, :, left:right]
            reversed_rows = batch_lengths.reversed_rows(first + index, start, stop)
            if reversed_rows:
                mirrored = batch_lengths.of(first + index) - start
                rows = entry[mirrored - reversed_rows : mirrored]
                core.memcpy_async(buffer[index, :reversed_rows], rows if staged else rows[_BACKWARD])
            if reversed_rows < stop - start:
                core.memcpy_async(buffer[index, reversed_rows:], entry[start + reversed_rows : stop])

    async def reverse(position: int, tile: Tile) -> None:
        count = math.prod(tile.shape)
        lanes = round_up(count, block)
        # In the compute pipe, which mirrors follow in order, or on the Move pipe, which moves of rows follow.
        (core.memcpy_async if settings.mirrored else core.move)(
            results[position % buffers][:lanes], loaded[position % buffers][:lanes]
        )
        before = layout.by_entry(front(loaded[position % buffers], tile.shape))[0]
        after = layout.by_entry(front(results[position % buffers], tile.shape))[0]
        _, first, start, _ = layout.ordered(tile.start)
        _, last, stop, _ = layout.ordered(tile.stop)
        await batch_lengths.load(first, last)
        for index in range(last - first):
            reversed_rows = batch_lengths.reversed_rows(first + index, start, stop)
            # A single row needs no reversal.
            if reversed_rows > 1:
                to, rows = after[index, :reversed_rows], before[index, :reversed_rows]
                if settings.mirrored:
                    core.mirror(to.reshape(1, -1), rows.reshape(1, -1))
                else:
                    core.move(to, rows[_BACKWARD])

    def store(position: int, tile: Tile) -> None:
        core.memcpy_async(boxed(target, tile.start, tile.stop), front(results[position % buffers], tile.shape))

    compute = reverse if staged else None
    await run_stages(core, tiles, load, compute, store, overlapped=settings.overlapped, skippable=False)


async def clear(core: Core, buffers: list[View]) -> None:
    """Set buffers to 0, and wait for it."""
    for buffer in buffers:
        core.write_zero(buffer)
    await core.sync_compute()


class Lengths:
    """The lengths that one task has loaded, clamped to 0 and the rows of an entry.

    Args:
        core: the core.
        lengths: one length per batch coordinate, in GDRAM.
        layout: maps entries to batch coordinates.
    """

    def __init__(self, core: Core, lengths: View, layout: EntryLayout) -> None:
        self._core = core
        self._lengths = lengths
        self._layout = layout
        self._loaded: dict[int, int] = {}

    async def load(self, first: int, last: int) -> None:
        """Load the lengths of entries [first, last) that are not loaded yet: one scalar load each."""
        coordinates = {self._layout.batch_of(entry) for entry in range(first, min(last, first + self._layout.period))}
        missing = coordinates - self._loaded.keys()
        if missing:
            start, stop = min(missing), max(missing) + 1
            values = await self._core.load_array(self._lengths[start:stop])
            for coordinate, value in enumerate(values.tolist(), start):
                self._loaded[coordinate] = min(max(value, 0), self._layout.rows)

    def of(self, entry: int) -> int:
        """Return the length of an entry; it must have been loaded."""
        return self._loaded[self._layout.batch_of(entry)]

    def reversed_rows(self, entry: int, start: int, stop: int) -> int:
        """Return how many of the rows [start, stop) of an entry are reversed: the first ones."""
        return min(max(self.of(entry) - start, 0), stop - start)
