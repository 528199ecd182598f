"""Bitwise copies: bitcast_convert, and casts to the same type.

  copy_tiles   (x, out, plan): copy the bytes of x to out

bitcast_convert usually moves nothing: its result is a view of the same device memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlusim.kernels.pipeline import run_stages
from mlusim.memory.view import View
from mlusim.planning.elementwise import ElementwiseParameters
from mlusim.planning.plan import Plan
from mlusim.planning.tiles import Tile

if TYPE_CHECKING:
    from mlusim.cores.core import Core


async def copy_tiles(core: Core, x: View, out: View, plan: Plan) -> None:
    """Load and store tile by tile; overlapped, the next load is issued after the store of the previous tile.

    x and out are contiguous tensors in GDRAM with equally many bytes. The plan is that of
    `planning.elementwise.plan_elementwise` with no passes, for elements of the width of `out`.
    """
    if core.is_memory_core:
        return
    target = out.reshape(-1)
    # The copy is bytewise: x may have another element type, and rank 0.
    source = View.of(x.allocation, target.shape, out.dtype, x.offset)
    settings = plan.parameters_as(ElementwiseParameters)
    count = 2 if settings.overlapped else 1
    buffers = [core.nram.alloc(settings.elements, out.dtype, f"tile {buffer}") for buffer in range(count)]

    def load(position: int, tile: Tile) -> None:
        (start,), (stop,) = tile.start, tile.stop
        core.memcpy_async(buffers[position % count][: stop - start], source[start:stop])

    def store(position: int, tile: Tile) -> None:
        (start,), (stop,) = tile.start, tile.stop
        core.memcpy_async(target[start:stop], buffers[position % count][: stop - start])

    tiles = [*plan.tiles_of(core.task_id)]
    await run_stages(core, tiles, load, None, store, overlapped=settings.overlapped)
