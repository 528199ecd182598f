"""Uninitialised bytes, tensors changed in place, inputs, errors."""

from __future__ import annotations

import mlusim
from faulty_kernels.registry import OUT, X, fault
from mlusim import InOut, Output


@fault("uninitialised")
async def sum_that_begins_with_nothing(core, x, out):
    if core.is_memory_core or core.core_id:
        return
    tile, total = core.nram.alloc((16, 64), x.dtype, "tile"), core.nram.alloc((16, 64), x.dtype, "total")
    await core.memcpy(tile, x)
    core.add(total, total, tile)
    await core.memcpy(out, total)


@fault("uninitialised")
async def padding_lanes_stored(core, x, out):
    if core.is_memory_core or core.core_id:
        return
    tile = core.nram.alloc((16, 64), x.dtype, "tile")
    await core.memcpy(tile[0:15], x[0:15])
    core.add(tile, tile, 1.0)
    await core.memcpy(out, tile)


@fault("uninitialised")
async def padding_lanes_in_a_reduction(core, x, out):
    if core.is_memory_core or core.core_id:
        return
    tile, total = core.nram.alloc((16, 64), x.dtype, "tile"), core.nram.alloc(64, x.dtype, "total")
    await core.memcpy(tile[0:15], x[0:15])
    core.sum_rows(total, tile)
    for row in range(16):
        await core.memcpy(out[row], total)


@fault("uninitialised")
async def count_from_a_buffer_that_nobody_filled(core, x, out):
    if core.is_memory_core or core.core_id:
        return
    tile, lengths = core.nram.alloc((16, 64), x.dtype, "tile"), core.nram.alloc(4, "int32", "lengths")
    await core.memcpy(tile, x)
    count = await core.load(lengths[0])
    await core.memcpy(out[0 : 16 if count < 0 else 8], tile[0 : 16 if count < 0 else 8])


@fault("uninitialised")
async def sram_that_nobody_loads(core, x, out):
    if core.is_memory_core:
        return
    box = core.sram.alloc((16, 64), x.dtype, "box")
    tile = core.nram.alloc((4, 64), x.dtype, "tile")
    rows = slice(core.core_id * 4, core.core_id * 4 + 4)
    await core.memcpy(tile, box[rows])
    await core.memcpy(out[rows], tile)


@fault("uninitialised", arguments=(X, OUT))
async def output_used_as_if_it_were_cleared(core, x, out):
    if core.is_memory_core or core.core_id:
        return
    tile, held = (core.nram.alloc((16, 64), x.dtype, name) for name in ("tile", "held"))
    await core.memcpy(tile, x)
    await core.memcpy(held, out)
    core.maxequal(tile, tile, held)
    await core.memcpy(out, tile)


@fault("access")
async def input_changed_in_place(core, x, out):
    if core.is_memory_core or core.core_id:
        return
    tile = core.nram.alloc((16, 64), x.dtype, "tile")
    await core.memcpy(tile, x)
    await core.memcpy(x, tile)
    await core.memcpy(out, tile)


@fault("task-race", arguments=(InOut(X),))
async def shift_in_place_by_rows(core, x):
    if core.is_memory_core:
        return
    tile = core.nram.alloc((4, 64), x.dtype, "tile")
    first = core.core_id * 4
    count = min(4, 15 - first)
    await core.memcpy(tile[0:count], x[first + 1 : first + 1 + count])
    await core.memcpy(x[first : first + count], tile[0:count])


@fault("task-race", arguments=(InOut(X),))
async def halves_swapped_in_place(core, x):
    if core.is_memory_core:
        return
    tile = core.nram.alloc((4, 64), x.dtype, "tile")
    first, other = core.core_id * 4, (core.core_id + 2) % 4 * 4
    await core.memcpy(tile, x[other : other + 4])
    await core.memcpy(x[first : first + 4], tile)


@fault("swallowed")
async def swallowed_error(core, x, out):
    if core.is_memory_core or core.core_id:
        return
    tile = core.nram.alloc((16, 64), x.dtype, "tile")
    await core.memcpy(tile, x)
    try:
        await core.memcpy(out, tile[0:20])
    except mlusim.MlusimError:
        await core.memcpy(out, tile)


@fault("await")
async def forgotten_await(core, x, out):
    if core.is_memory_core or core.core_id:
        return
    tile = core.nram.alloc((16, 64), x.dtype, "tile")
    core.memcpy(tile, x)
    await core.memcpy(out, tile)


@fault("endless", max_operations=2000)
async def loop_whose_bound_never_comes(core, x, out):
    if core.is_memory_core or core.core_id:
        return
    tile = core.nram.alloc(64, x.dtype, "tile")
    row = 0
    while row != 17:
        await core.memcpy(tile, x[row % 16])
        await core.memcpy(out[row % 16], tile)
        row += 2


@fault("allocation")
async def tile_that_does_not_fit(core, x, out):
    if core.is_memory_core:
        return
    core.nram.alloc((1024, 1024), x.dtype, "tile")


@fault("operand", arguments=(X[:, :50], Output((16, 50))), device="mlu270")
async def ragged_length_on_an_old_board(core, x, out):
    if core.is_memory_core or core.core_id:
        return
    tile = core.nram.alloc((16, 64), x.dtype, "tile")
    for row in range(16):
        await core.memcpy(tile[row, 0:50], x[row])
        core.add(tile[row, 0:50], tile[row, 0:50], 1.0)
        await core.memcpy(out[row], tile[row, 0:50])


@fault("operand", arguments=(X[:, :50], Output((16, 50))), device="mlu270")
async def ragged_buffer_on_an_old_board(core, x, out):
    if core.is_memory_core or core.core_id:
        return
    tile = core.nram.alloc(50, x.dtype, "tile")
    for row in range(16):
        await core.memcpy(tile, x[row])
        core.add(tile, tile, 1.0)
        await core.memcpy(out[row], tile)


@fault("operand", arguments=(X[:10], Output((64, 10))), device="mlu290")
async def ragged_transpose_on_an_old_board(core, x, out):
    if core.is_memory_core or core.core_id:
        return
    tile, turned = core.nram.alloc((10, 64), x.dtype, "tile"), core.nram.alloc((64, 10), x.dtype, "turned")
    await core.memcpy(tile, x)
    core.transpose(turned, tile)
    await core.memcpy(out, turned)


@fault("copy")
async def ragged_copy_from_wram(core, x, out):
    if core.is_memory_core or core.core_id:
        return
    tile, weights = core.nram.alloc(64, x.dtype, "tile"), core.wram.alloc(64, x.dtype, "weights")
    await core.memcpy(tile, x[0])
    await core.memcpy(weights, tile)
    await core.memcpy(out[0, 0:3], weights[0:3])


@fault("copy")
async def copy_to_the_next_element_of_the_same_buffer(core, x, out):
    if core.is_memory_core or core.core_id:
        return
    tile = core.nram.alloc((16, 64), x.dtype, "tile")
    await core.memcpy(tile, x)
    await core.memcpy(tile[1:16], tile[0:15])
    await core.memcpy(out, tile)


@fault("copy", arguments=(InOut(X),))
async def rows_moved_down_by_one_copy_in_gdram(core, x):
    if core.is_memory_core or core.core_id:
        return
    await core.memcpy(x[1:16], x[0:15])
