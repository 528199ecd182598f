"""cast on the board: tiles go to NRAM, the vector unit converts them, and they go back.

    cast_tiles   (x, out, plan): a conversion, of one step or two

The same element type is a copy of bits: `mlusim.kernels.bitcast.copy_tiles`. x and out are contiguous tensors in GDRAM,
of equally many elements; the plan is `flat_plan.plan_flat`'s.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlusim.kernels.pipeline import run_stages
from mlusim.kernels.plan import Plan, Tile
from mlusim.memory.view import View
from mlusim.units import round_up

if TYPE_CHECKING:
    from mlusim.cores.core import Core


async def cast_tiles(core: Core, x: View, out: View, plan: Plan) -> None:
    """Convert tile by tile, overlapped or one stage after the other, as the plan says.

    Boards of arch below 300 convert whole blocks of 128 B: the lanes behind the end of the tensor are cleared before
    the last tile is loaded, converted with it and not stored.
    """
    if core.is_memory_core:
        return
    source, target = x.reshape(-1), out.reshape(-1)
    buffers = 2 if plan.parameters["overlapped"] else 1
    elements, block = plan.parameters["elements"], plan.parameters["block"]
    inputs = [core.nram.alloc(elements, x.dtype, f"input {buffer}") for buffer in range(buffers)]
    outputs = [core.nram.alloc(elements, out.dtype, f"output {buffer}") for buffer in range(buffers)]
    pads = core.board.needs_aligned_vectors

    async def load(position: int, tile: Tile) -> None:
        (start,), (stop,) = tile.start, tile.stop
        buffer, count = inputs[position % buffers], stop - start
        if pads and count % block:
            lanes = round_up(count, block)
            core.write_zero(buffer[lanes - block : lanes])
            await core.sync_compute()
        core.memcpy_async(buffer[:count], source[start:stop])

    async def convert(position: int, tile: Tile) -> None:
        count = tile.stop[0] - tile.start[0]
        lanes = round_up(count, block) if pads else count
        core.convert(outputs[position % buffers][:lanes], inputs[position % buffers][:lanes])

    async def store(position: int, tile: Tile) -> None:
        (start,), (stop,) = tile.start, tile.stop
        core.memcpy_async(target[start:stop], outputs[position % buffers][: stop - start])

    tiles = [*plan.tiles_of(core.task_id)]
    await run_stages(core, tiles, load, convert, store, overlapped=plan.parameters["overlapped"])
