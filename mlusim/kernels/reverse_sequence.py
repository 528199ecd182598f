"""The kernel of reverse_sequence: the first L rows of each batch entry are reversed, the others copied.

  reverse_sequence_tiles   (x, lengths, out, plan): out[b, s] = x[b, L - 1 - s] for s < L, else x[b, s]

L is lengths[b], clamped to 0 and the rows of an entry. x and out are contiguous tensors with equally many elements in
GDRAM, lengths an int32 or int64 tensor there. The plan is that of `planning.reverse_sequence.plan_reverse_sequence`,
which explains entries and rows. Each task loads each length that it needs once. Address arithmetic and loops are not
charged to the scalar pipe.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
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
    buffers = 2 if settings.overlapped else 1
    # On arch below 300 a contiguous move copies whole 128 B only (B), so bytes beyond the tile are moved with it.
    block = plan.board.vector_alignment_bytes // x.itemsize if core.board.needs_aligned_vectors else 1
    elements = round_up(settings.elements, block)
    results = [core.nram.alloc(elements, x.dtype, f"result {buffer}") for buffer in range(buffers)]
    loaded = results
    tiles = [*plan.tiles_of(core.task_id)]
    if settings.staged:
        loaded = [core.nram.alloc(elements, x.dtype, f"loaded {buffer}") for buffer in range(buffers)]
        if any(math.prod(tile.shape) % block for tile in tiles):
            await clear(core, loaded)
    stages = _Stages(
        core=core,
        settings=settings,
        source=x.reshape(settings.layout.shape),
        target=out.reshape(settings.layout.shape),
        lengths=Lengths(core, lengths, settings.layout),
        loaded=loaded,
        results=results,
        block=block,
        loads_whole_tiles=settings.staged and plan.tier == 1,
    )
    compute = stages.reverse if settings.staged else None
    await run_stages(core, tiles, stages.load, compute, stages.store, overlapped=settings.overlapped, skippable=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stages:
    """The stages of one task: each takes the position of a tile among those of the task, and the tile.

    Attributes:
        core: the core.
        settings: the parameters of the plan.
        source, target: x and out, with the axes of `EntryLayout.shape`.
        lengths: the lengths that the task has loaded.
        loaded, results: the buffers that loads write and that stores read, of successive tiles in turn; the same ones
            if entries are reversed by the loads.
        block: a contiguous move copies a multiple of this many elements.
        loads_whole_tiles: whether a tile of whole entries is one load, in their order.
    """

    core: Core
    settings: SequenceParameters
    source: View
    target: View
    lengths: Lengths
    loaded: list[View]
    results: list[View]
    block: int
    loads_whole_tiles: bool

    async def load(self, position: int, tile: Tile) -> None:
        """Load a tile: as it is, or for each entry the reversed rows and the others."""
        core, layout = self.core, self.settings.layout
        loaded = front(self.loaded[position % len(self.loaded)], tile.shape)
        if self.loads_whole_tiles:
            core.memcpy_async(loaded, boxed(self.source, tile.start, tile.stop))
            return
        buffer, entries = layout.by_entry(loaded)[0], layout.by_entry(self.source)
        outer, first, start, left = layout.ordered(tile.start)
        _, last, stop, right = layout.ordered(tile.stop)
        await self.lengths.load(first, last)
        for index in range(last - first):
            entry = entries[outer, first + index, :, left:right]
            reversed_rows = self.lengths.reversed_rows(first + index, start, stop)
            if reversed_rows:
                mirrored = self.lengths.of(first + index) - start
                rows = entry[mirrored - reversed_rows : mirrored]
                core.memcpy_async(buffer[index, :reversed_rows], rows if self.settings.staged else rows[_BACKWARD])
            if reversed_rows < stop - start:
                core.memcpy_async(buffer[index, reversed_rows:], entry[start + reversed_rows : stop])

    async def reverse(self, position: int, tile: Tile) -> None:
        """Move a loaded tile within NRAM, and reverse the first rows of its entries."""
        core, layout, is_mirrored = self.core, self.settings.layout, self.settings.mirrored
        loaded, result = self.loaded[position % len(self.loaded)], self.results[position % len(self.results)]
        lanes = round_up(math.prod(tile.shape), self.block)
        # In the compute pipe, which mirrors follow in order, or on the Move pipe, which moves of rows follow.
        (core.memcpy_async if is_mirrored else core.move)(result[:lanes], loaded[:lanes])
        before, after = (layout.by_entry(front(buffer, tile.shape))[0] for buffer in (loaded, result))
        _, first, start, _ = layout.ordered(tile.start)
        _, last, stop, _ = layout.ordered(tile.stop)
        await self.lengths.load(first, last)
        for index in range(last - first):
            reversed_rows = self.lengths.reversed_rows(first + index, start, stop)
            # A single row needs no reversal.
            if reversed_rows > 1:
                to, rows = after[index, :reversed_rows], before[index, :reversed_rows]
                if is_mirrored:
                    core.mirror(to.reshape(1, -1), rows.reshape(1, -1))
                else:
                    core.move(to, rows[_BACKWARD])

    def store(self, position: int, tile: Tile) -> None:
        """Store a reversed tile."""
        result = front(self.results[position % len(self.results)], tile.shape)
        self.core.memcpy_async(boxed(self.target, tile.start, tile.stop), result)


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
