"""The kernel of cast: tiles are loaded to NRAM, converted by the vector unit, and stored.

  cast_tiles   (x, out, plan): a conversion in one or two steps

Casts to the same element type are bitwise copies: `mlusim.kernels.bitcast.copy_tiles`. x and out are contiguous tensors
in GDRAM with equally many elements; the plan is that of `planning.elementwise.plan_elementwise`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlusim.dtypes import BOOL, FLOAT32, Dtype, bounds, is_complex, is_integer
from mlusim.kernels.pipeline import run_stages
from mlusim.memory.view import View
from mlusim.planning.elementwise import ElementwiseParameters
from mlusim.planning.plan import Plan
from mlusim.planning.tiles import Tile
from mlusim.units import round_up

if TYPE_CHECKING:
    from mlusim.cores.core import Core


def clamps(source: Dtype, target: Dtype) -> tuple[tuple[str, float], ...]:
    """Return the vector instructions, with their operands, that clamp elements to the finite range of an 8-bit float.

    Empty if all finite values of the source are within it.
    """
    if source in (target, BOOL) or is_complex(source):
        return ()
    # The vector unit computes on 32 bits at most: wider elements have been converted to float32.
    source = FLOAT32 if source.itemsize > FLOAT32.itemsize else source
    (_, limit), (low, high) = bounds(target), bounds(source)
    number = int if is_integer(source) else float
    upper = (("minequal", number(limit)),) if high > limit else ()
    return upper + ((("maxequal", -number(limit)),) if low < -limit else ())


async def cast_tiles(core: Core, x: View, out: View, plan: Plan, saturate: bool = False) -> None:  # noqa: FBT001, FBT002 - launched by position
    """Convert tile by tile, with overlapped or sequential stages, as the plan says.

    saturate: clamp elements to the finite range of the 8-bit float that they are converted to.

    Boards of arch below 300 convert whole blocks of 128 B: the lanes beyond the end of the tensor are cleared before
    the last tile is loaded, converted with it, and not stored.
    """
    if core.is_memory_core:
        return
    source, target = x.reshape(-1), out.reshape(-1)
    settings = plan.parameters_as(ElementwiseParameters)
    buffers = 2 if settings.overlapped else 1
    elements, block = settings.elements, settings.block
    inputs = [core.nram.alloc(elements, x.dtype, f"input {buffer}") for buffer in range(buffers)]
    outputs = [core.nram.alloc(elements, out.dtype, f"output {buffer}") for buffer in range(buffers)]
    pads = core.board.needs_aligned_vectors
    limits = clamps(x.dtype, out.dtype) if saturate else ()

    def load(position: int, tile: Tile) -> None:
        (start,), (stop,) = tile.start, tile.stop
        core.memcpy_async(inputs[position % buffers][: stop - start], source[start:stop])

    async def clear_and_load(position: int, tile: Tile) -> None:
        count = tile.stop[0] - tile.start[0]
        if count % block:
            lanes = round_up(count, block)
            core.write_zero(inputs[position % buffers][lanes - block : lanes])
            await core.sync_compute()
        load(position, tile)

    def convert(position: int, tile: Tile) -> None:
        count = tile.stop[0] - tile.start[0]
        lanes = round_up(count, block) if pads else count
        values = inputs[position % buffers][:lanes]
        if limits and x.itemsize > FLOAT32.itemsize:
            narrow = View.of(values.allocation, values.shape, FLOAT32, values.offset)
            core.convert(narrow, values)
            values = narrow
        for name, limit in limits:
            getattr(core, name)(values, values, limit)
        core.convert(outputs[position % buffers][:lanes], values)

    def store(position: int, tile: Tile) -> None:
        (start,), (stop,) = tile.start, tile.stop
        core.memcpy_async(target[start:stop], outputs[position % buffers][: stop - start])

    tiles = [*plan.tiles_of(core.task_id)]
    first = clear_and_load if pads else load
    await run_stages(core, tiles, first, convert, store, overlapped=settings.overlapped)
