"""reverse_sequence on the board: the first L rows of each batch entry are turned round, the others stay.

    reverse_sequence_tiles   (x, lengths, out, plan): out[b, s] = x[b, L - 1 - s] for s < L, else x[b, s]

L is lengths[b], between 0 and the rows of an entry: less is 0, more is all of them. x and out are contiguous tensors of
equally many elements in GDRAM, lengths an int32 or int64 tensor there; the plan is
`reverse_sequence_plan.plan_reverse_sequence`'s, and entries and rows are explained there. Each task loads each length
that it needs once. Address arithmetic and loops are not charged to the scalar pipe.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlusim.kernels.pipeline import run_stages
from mlusim.kernels.plan import Plan, Tile
from mlusim.kernels.reverse_sequence_plan import Layout
from mlusim.memory.kinds import Direction
from mlusim.memory.view import View

if TYPE_CHECKING:
    from mlusim.cores.core import Core

_BACKWARD = slice(None, None, -1)


async def reverse_sequence_tiles(core: Core, x: View, lengths: View, out: View, plan: Plan) -> None:
    """Reverse tile by tile: on the way, or by moves within NRAM, as the plan says."""
    if core.is_memory_core:
        return
    layout: Layout = plan.parameters["layout"]
    source, target = x.reshape(layout.shape), out.reshape(layout.shape)
    turns = 2 if plan.parameters["overlapped"] else 1
    staged: bool = plan.parameters["staged"]
    elements = plan.parameters["elements"]
    results = [core.nram.alloc(elements, x.dtype, f"result {buffer}") for buffer in range(turns)]
    loaded = [core.nram.alloc(elements, x.dtype, f"loaded {buffer}") for buffer in range(turns * staged)]
    known = Lengths(core, lengths, layout)

    async def load(position: int, tile: Tile) -> None:
        whole = box(source, tile)
        if staged:
            core.memcpy_async(shaped(loaded[position % turns], whole), whole)
            return
        result = by_entry(shaped(results[position % turns], whole), layout)
        place = by_entry(source, layout)
        _, first, start, left = logical(tile.start, layout)
        _, _, stop, right = logical(tile.stop, layout)
        await known.load(first, first + result.shape[0])
        for index in range(result.shape[0]):
            entry = place[tile.start[0], first + index, :, left:right]
            length = known.of(first + index)
            turned = min(max(length - start, 0), stop - start)
            if turned:
                rows = entry[length - start - turned : length - start]
                core.memcpy_async(result[index, :turned], rows[_BACKWARD])
            if turned < stop - start:
                core.memcpy_async(result[index, turned:], entry[start + turned : stop])

    async def turn(position: int, tile: Tile) -> None:
        whole = box(source, tile)
        before = by_entry(shaped(loaded[position % turns], whole), layout)
        after = by_entry(shaped(results[position % turns], whole), layout)
        first = logical(tile.start, layout)[1]
        await known.load(first, first + after.shape[0])
        for index in range(after.shape[0]):
            turned = known.of(first + index)
            if turned > 1:
                core.move(after[index, :turned], before[index, :turned][_BACKWARD])
            else:
                turned = 0
            if turned < layout.rows:
                move_rows(core, after[index, turned:], before[index, turned:])

    async def store(position: int, tile: Tile) -> None:
        whole = box(target, tile)
        core.memcpy_async(whole, shaped(results[position % turns], whole))

    tiles = [*plan.tiles_of(core.task_id)]
    await run_stages(core, tiles, load, turn if staged else None, store, overlapped=plan.parameters["overlapped"])
