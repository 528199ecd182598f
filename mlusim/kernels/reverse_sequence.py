"""The kernel of reverse_sequence: the first L rows of each batch entry are reversed, the others copied.

  reverse_sequence_tiles   (x, lengths, out, plan): out[b, s] = x[b, L - 1 - s] for s < L, else x[b, s]

L is lengths[b], clamped to 0 and the rows of an entry. x and out are contiguous tensors with equally many elements in
GDRAM, lengths an int32 or int64 tensor there. The plan is that of `planning.reverse_sequence.plan_reverse_sequence`,
which explains entries and rows. Each task loads each length that it needs once. Address arithmetic and loops are not
charged to the scalar pipe.
"""

from __future__ import annotations

import math
from itertools import groupby
from typing import TYPE_CHECKING

from mlusim.kernels.boxes import box_of, front
from mlusim.kernels.pipeline import run_stages
from mlusim.memory.view import View
from mlusim.planning.entry_layout import EntryLayout
from mlusim.planning.plan import Plan
from mlusim.planning.reverse_sequence import SequenceParameters
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
    layout, staged = settings.layout, settings.staged
    source, target = x.reshape(layout.shape), out.reshape(layout.shape)
    tiles = [*plan.tiles_of(core.task_id)]
    buffers = 2 if settings.overlapped else 1
    # On arch below 300 a contiguous move copies whole 128 B only (B), so bytes beyond the tile are moved with it.
    block = plan.board.vector_alignment_bytes // x.itemsize if core.board.needs_aligned_vectors else 1
    elements = round_up(settings.elements, block)
    results = [core.nram.alloc(elements, x.dtype, f"result {buffer}") for buffer in range(buffers)]
    # Entries that the loads reverse are stored from where they were loaded.
    load_buffers = results
    if staged:
        load_buffers = [core.nram.alloc(elements, x.dtype, f"loaded {buffer}") for buffer in range(buffers)]
        if any(math.prod(tile.shape) % block for tile in tiles):
            await clear(core, load_buffers)
    loaded_lengths = Lengths(core, lengths, layout)

    async def load(position: int, tile: Tile) -> None:
        """Load a tile: as it is, or for each entry the reversed rows and the others."""
        to = front(load_buffers[position % buffers], tile.shape)
        if staged and plan.tier == 1:
            core.memcpy_async(to, box_of(source, tile.start, tile.stop))
            return
        outer, first, start, first_element = layout.reorder(tile.start)
        _, _, stop, end_element = layout.reorder(tile.stop)
        to_entries, entries = layout.by_entry(to)[0], layout.by_entry(source)[outer]
        for entry, count in enumerate(await loaded_lengths.reversed_rows(tile), first):
            rows, to_rows = entries[entry, :, first_element:end_element], to_entries[entry - first]
            if count:
                # Rows [start, start + count) of the output, counted back from the end of the sequence.
                end = loaded_lengths.of(entry) - start
                mirrored = rows[end - count : end]
                core.memcpy_async(to_rows[:count], mirrored if staged else mirrored[_BACKWARD])
            if count < stop - start:
                core.memcpy_async(to_rows[count:], rows[start + count : stop])

    async def reverse(position: int, tile: Tile) -> None:
        """Move a loaded tile within NRAM, and reverse the first rows of its entries."""
        source, result = load_buffers[position % buffers], results[position % buffers]
        lanes = round_up(math.prod(tile.shape), block)
        # In the compute pipe, which mirrors follow in order, or on the Move pipe, which moves of rows follow.
        move_tile = core.memcpy_async if settings.mirrored else core.move
        move_tile(result[:lanes], source[:lanes])
        from_entries, to_entries = (layout.by_entry(front(buffer, tile.shape))[0] for buffer in (source, result))
        for number, count in enumerate(await loaded_lengths.reversed_rows(tile)):
            # A single row needs no reversal.
            if count > 1:
                rows, to_rows = (side[number, :count] for side in (from_entries, to_entries))
                if settings.mirrored:
                    core.mirror(to_rows.reshape(1, -1), rows.reshape(1, -1))
                else:
                    core.move(to_rows, rows[_BACKWARD])

    def store(position: int, tile: Tile) -> None:
        core.memcpy_async(box_of(target, tile.start, tile.stop), front(results[position % buffers], tile.shape))

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
        self._lengths_loaded: dict[int, int] = {}

    async def reversed_rows(self, tile: Tile) -> list[int]:
        """Return by entry of a tile how many of its rows are reversed: the first ones."""
        _, first, start, _ = self._layout.reorder(tile.start)
        _, last, stop, _ = self._layout.reorder(tile.stop)
        await self._load(first, last)
        return [min(max(self.of(entry) - start, 0), stop - start) for entry in range(first, last)]

    async def _load(self, first: int, last: int) -> None:
        """Load the lengths of entries [first, last) that are not loaded yet: one scalar load each."""
        coordinates = {self._layout.batch_of(entry) for entry in range(first, min(last, first + self._layout.period))}
        not_loaded = sorted(coordinates - self._lengths_loaded.keys())
        # Entries that begin in one row of the batch and end in the next have two runs of coordinates.
        for _, numbered in groupby(enumerate(not_loaded), lambda item: item[1] - item[0]):
            run = [coordinate for _, coordinate in numbered]
            values = await self._core.load_array(self._lengths[run[0] : run[-1] + 1])
            for coordinate, value in zip(run, values.tolist(), strict=True):
                self._lengths_loaded[coordinate] = min(max(value, 0), self._layout.rows)

    def of(self, entry: int) -> int:
        """Return the length of an entry; it must have been loaded."""
        return self._lengths_loaded[self._layout.batch_of(entry)]
