"""The kernels of tin_shift: each group of channels moves along time by its own shift, and zeros move in.

The shift is applied while rows are loaded to NRAM; NRAM is then stored as it is. Row t of the output is row t - shift
of the input if that exists, else zeros. Four kernels follow the plans of `planning.tin_shift`:

  tin_shift_segments        tiers 1 and 2 of documented and shipped: clear, load, store
  tin_shift_tight_segments  tiers 1 and 2 of tight and batched: only vacated rows are cleared, while the others load
  tin_shift_row_chunks      tier 3 of these four: one core processes a row in chunks
  tin_shift_pingpong        all tiers, with two buffers

All take (x, shifts, out, plan, sign): x and out (N, T, C, HW) of one element type and shifts (N, G) int32, in GDRAM;
sign 1, or -1 for the adjoint. A shift is clamped to T before its sign is applied, as INT_MIN cannot be negated in
int32. Loads of the shifts are charged to the scalar pipe; address arithmetic and loops are not modelled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlusim.kernels.boxes import front_views
from mlusim.memory.view import View
from mlusim.planning.plan import Plan
from mlusim.planning.tin_shift import ShiftParameters
from mlusim.units import round_up

if TYPE_CHECKING:
    from mlusim.cores.core import Core, Kernel
    from mlusim.hardware import Board


def kernel_of(plan: Plan) -> Kernel:
    """Return the kernel that follows a plan of `plan_tin_shift`."""
    settings = plan.parameters_as(ShiftParameters)
    if settings.buffers > 1:
        return tin_shift_pingpong
    if plan.tier == 3:
        return tin_shift_row_chunks
    return tin_shift_segments if settings.clears == "buffer" else tin_shift_tight_segments


async def tin_shift_segments(core: Core, x: View, shifts: View, out: View, plan: Plan, sign: int) -> None:
    """Tiers 1 and 2 as documented: clear the buffer, load the rows that stay inside, store the segment."""
    if core.is_memory_core:
        return
    _, time, channels, hw = x.shape
    channels_per_group = channels // shifts.shape[1]
    nram = core.nram.alloc(plan.nram_bytes // x.itemsize, x.dtype)
    buffer = nram[: plan.parameters_as(ShiftParameters).rows * hw].reshape(-1, hw)
    for tile in plan.tiles_of(core.task_id):
        n, begin, c, _ = tile.start
        end = tile.stop[1]
        shift = sign * clamp_shift(await core.load(shifts[n, c // channels_per_group]), time)
        source = begin - shift
        first, last = rows_to_load(source, end - begin, time)
        core.write_zero(nram)
        if first < last:
            await core.memcpy(buffer[first:last], x[n, source + first : source + last, c])
        await core.memcpy(out[n, begin:end, c], buffer[: end - begin])


async def tin_shift_tight_segments(core: Core, x: View, shifts: View, out: View, plan: Plan, sign: int) -> None:
    """Tiers 1 and 2, one or more channels of a group at a time: clear vacated rows while the others load."""
    if core.is_memory_core:
        return
    _, time, channels, hw = x.shape
    channels_per_group = channels // shifts.shape[1]
    block_of = front_views(core.nram.alloc(plan.nram_bytes // x.itemsize, x.dtype))
    rounds_out = core.board.needs_aligned_vectors
    for tile in plan.tiles_of(core.task_id):
        n, begin, c, _ = tile.start
        _, end, c_end, _ = tile.stop
        block = block_of((end - begin, c_end - c, hw))
        shift = sign * clamp_shift(await core.load(shifts[n, c // channels_per_group]), time)
        source = begin - shift
        first, last = rows_to_load(source, end - begin, time)
        vacated = last - first < end - begin
        if vacated and rounds_out:
            # Aligned clearing may reach into rows to be loaded, so the load has to follow it.
            core.write_zero(vacated_part(core.board, block, first, last))
            await core.sync_compute()
        if first < last:
            core.memcpy_async(block[first:last], x[n, source + first : source + last, c:c_end])
        if vacated and not rounds_out:
            core.write_zero(vacated_part(core.board, block, first, last))
        await core.memcpy(out[n, begin:end, c:c_end], block)


async def tin_shift_row_chunks(core: Core, x: View, shifts: View, out: View, plan: Plan, sign: int) -> None:
    """Tier 3: a row does not fit, and one core processes it in chunks. The buffer is cleared once per vacated row."""
    if core.is_memory_core:
        return
    _, time, channels, _ = x.shape
    channels_per_group = channels // shifts.shape[1]
    buffer = core.nram.alloc(plan.nram_bytes // x.itemsize, x.dtype)
    always_clears = plan.parameters_as(ShiftParameters).clears == "buffer"
    source, is_inside = 0, False
    for tile in plan.tiles_of(core.task_id):
        n, t, c, first_element = tile.start
        end_element = tile.stop[3]
        if first_element == 0:
            shift = sign * clamp_shift(await core.load(shifts[n, c // channels_per_group]), time)
            source = t - shift
            is_inside = 0 <= source < time
            if always_clears or not is_inside:
                core.write_zero(buffer)
        chunk = buffer[: end_element - first_element]
        if is_inside:
            await core.memcpy(chunk, x[n, source, c, first_element:end_element])
        await core.memcpy(out[n, t, c, first_element:end_element], chunk)


async def tin_shift_pingpong(core: Core, x: View, shifts: View, out: View, plan: Plan, sign: int) -> None:
    """All tiers with two buffers: while one is stored, the other is cleared and its load starts up.

    Loads and stores share the IO pipe, so they never transfer at the same time; the clearing, the load of the next
    shift, and the start-up of every load are hidden. One sync per tile orders everything: the load and the clearing of
    the tile that is stored next, and the store that still reads the other buffer.
    """
    if core.is_memory_core:
        return
    _, time, channels, _ = x.shape
    channels_per_group = channels // shifts.shape[1]
    blocks = [front_views(core.nram.alloc(plan.nram_bytes // 2 // x.itemsize, x.dtype)) for _ in range(2)]
    pending_store: tuple[View, View] | None = None
    for tile in plan.tiles_of(core.task_id):
        n, begin, c, first_element = tile.start
        _, end, _, end_element = tile.stop
        block = blocks[tile.iteration % 2]((end - begin, 1, end_element - first_element))
        shift = sign * clamp_shift(await core.load(shifts[n, c // channels_per_group]), time)
        source = begin - shift
        first, last = rows_to_load(source, end - begin, time)
        if pending_store:
            await core.sync()
            core.memcpy_async(*pending_store)
        if last - first < end - begin:
            core.write_zero(vacated_part(core.board, block, first, last))
            if core.board.needs_aligned_vectors:
                await core.sync_compute()  # the cleared range may reach into rows that the load fills
        if first < last:
            rows_of_x = x[n, source + first : source + last, c : c + 1, first_element:end_element]
            core.memcpy_async(block[first:last], rows_of_x)
        pending_store = (out[n, begin:end, c : c + 1, first_element:end_element], block)
    if pending_store:
        await core.memcpy(*pending_store)


def clamp_shift(shift: int, time: int) -> int:
    """Limit a shift to the number of rows: beyond it, all rows are vacated."""
    return max(-time, min(shift, time))


def rows_to_load(source: int, rows: int, time: int) -> tuple[int, int]:
    """Return the range of `rows` rows that the input fills, where the first one corresponds to input row `source`.

    The other rows are vacated: at the front for a shift to later times, at the back for one to earlier times. The
    boundary is at an end of the segment, inside it, or the segment is entirely on one side: with the shorter last
    segment, these are the document's three cases for both signs.
    """
    return min(max(-source, 0), rows), max(min(time - source, rows), 0)


def vacated_part(board: Board, block: View, first: int, last: int) -> View:
    """Return the part of a block to clear when only rows [first, last) are loaded.

    The other rows exactly or, on boards with aligned vector operands, rounded out to the alignment. The block is at the
    front of its buffer.
    """
    rows = block[:first] if first else block[last:]
    if not board.needs_aligned_vectors:
        return rows
    start = rows.offset // board.vector_alignment_bytes * board.vector_alignment_bytes
    stop = min(round_up(rows.offset + rows.nbytes, board.vector_alignment_bytes), block.allocation.nbytes)
    return View.of(block.allocation, ((stop - start) // block.itemsize,), block.dtype, start)
