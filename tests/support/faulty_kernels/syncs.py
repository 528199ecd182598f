"""Syncs within a core."""

from __future__ import annotations

import numpy as np

from faulty_kernels.registry import OUT, RNG, X, fault
from mlusim import InOut


@fault("race")
async def compute_before_the_load_is_done(core, x, out):
    if core.is_memory_core:
        return
    tile = core.nram.alloc((4, 64), x.dtype, "tile")
    rows = slice(core.core_id * 4, core.core_id * 4 + 4)
    core.memcpy_async(tile, x[rows])
    core.add(tile, tile, 1.0)
    await core.sync()
    await core.memcpy(out[rows], tile)


@fault("race")
async def sync_of_the_wrong_pipe(core, x, out):
    if core.is_memory_core:
        return
    tile = core.nram.alloc((4, 64), x.dtype, "tile")
    rows = slice(core.core_id * 4, core.core_id * 4 + 4)
    core.memcpy_async(tile, x[rows])
    await core.sync_compute()
    core.add(tile, tile, 1.0)
    await core.sync_compute()
    await core.memcpy(out[rows], tile)


@fault("race")
async def ping_pong_without_a_sync_before_reuse(core, x, out):
    if core.is_memory_core:
        return
    tile = core.nram.alloc((2, 64), x.dtype, "tile")
    for step in range(4):
        row = core.core_id * 4 + step
        core.memcpy_async(tile[step % 2], x[row])
        await core.sync_io()
        core.mul(tile[step % 2], tile[step % 2], 2.0)
        if step:
            core.memcpy_async(out[row - 1], tile[(step - 1) % 2])
    await core.sync()
    await core.memcpy(out[core.core_id * 4 + 3], tile[1])


@fault("race")
async def async_store_then_overwrite(core, x, out):
    if core.is_memory_core:
        return
    tile = core.nram.alloc(64, x.dtype, "tile")
    for row in range(core.core_id, 16, 4):
        await core.memcpy(tile, x[row])
        core.memcpy_async(out[row], tile)
        core.write_zero(tile)
    await core.sync()


@fault("race")
async def move_pipe_copy_not_waited_for(core, x, out):
    if core.is_memory_core:
        return
    tile, copy = (core.nram.alloc((4, 64), x.dtype, name) for name in ("tile", "copy"))
    rows = slice(core.core_id * 4, core.core_id * 4 + 4)
    await core.memcpy(tile, x[rows])
    core.move(copy, tile)
    core.add(copy, copy, tile)
    await core.memcpy(out[rows], copy)


@fault("race")
async def stored_before_the_copy_within_nram_is_done(core, x, out):
    if core.is_memory_core:
        return
    tile, copy = (core.nram.alloc((4, 64), x.dtype, name) for name in ("tile", "copy"))
    rows = slice(core.core_id * 4, core.core_id * 4 + 4)
    await core.memcpy(tile, x[rows])
    core.memcpy_async(copy, tile)
    await core.sync_io()
    core.memcpy_async(out[rows], copy)
    await core.sync()


@fault("task-race", arguments=(X, InOut(np.zeros(64, np.float32))))
async def two_locks_for_one_sum(core, x, total):
    if core.is_memory_core:
        return
    tile, held = (core.nram.alloc(64, x.dtype, name) for name in ("tile", "held"))
    await core.memcpy(tile, x[core.core_id])
    await core.lock(core.core_id % 2)
    await core.memcpy(held, total)
    core.add(held, held, tile)
    await core.memcpy(total, held)
    await core.unlock(core.core_id % 2)


@fault("task-race", arguments=(X, InOut(np.zeros(64, np.float32))))
async def loaded_before_the_lock(core, x, total):
    if core.is_memory_core:
        return
    tile, held = (core.nram.alloc(64, x.dtype, name) for name in ("tile", "held"))
    await core.memcpy(tile, x[core.core_id])
    await core.memcpy(held, total)
    await core.lock(0)
    core.add(held, held, tile)
    await core.memcpy(total, held)
    await core.unlock(0)


@fault("race")
async def scalar_load_before_the_copy_is_done(core, x, out):
    if core.is_memory_core or core.core_id:
        return
    tile = core.nram.alloc((16, 64), x.dtype, "tile")
    core.memcpy_async(tile, x)
    first = await core.load(tile[0, 0])
    core.add(tile, tile, float(first))
    await core.memcpy(out, tile)


@fault("race")
async def scalar_store_then_vector_copy_out(core, x, out):
    if core.is_memory_core or core.core_id:
        return
    tile = core.nram.alloc((16, 64), x.dtype, "tile")
    await core.memcpy(tile, x)
    await core.memcpy(out, tile)
    core.store(out[0, 0], 5.0)
    await core.memcpy(tile, out)


ROWS = RNG.permutation(16).astype(np.uint32)


@fault("race", arguments=(X, ROWS, OUT), device="mlu590-h8")
async def offsets_of_the_turn_before(core, x, rows, out):
    if core.is_memory_core or core.core_id:
        return
    offsets, tile = core.nram.alloc(8, rows.dtype, "offsets"), core.nram.alloc((8, 64), x.dtype, "tile")
    await core.memcpy(offsets, rows[8:16])
    for first in (0, 8):
        # The gather takes its offsets at once, whatever its pipe has to do first.
        core.memcpy_async(offsets, rows[first : first + 8])
        core.gather(tile, x, offsets)
        await core.sync()
        await core.memcpy(out[first : first + 8], tile)


@fault("race", arguments=(X, ROWS, OUT), device="mlu590-h8")
async def offsets_that_are_no_row(core, x, rows, out):
    if core.is_memory_core or core.core_id:
        return
    offsets, tile = core.nram.alloc(16, rows.dtype, "offsets"), core.nram.alloc((16, 64), x.dtype, "tile")
    core.memcpy_async(offsets, rows)
    core.gather(tile, x, offsets)
    await core.sync()
    await core.memcpy(out, tile)


@fault("race")
async def posted_store_before_the_copy_back(core, x, out):
    if core.is_memory_core or core.core_id:
        return
    tile = core.nram.alloc((16, 64), x.dtype, "tile")
    core.store_array(out[0], np.ones(64, np.float32))
    await core.memcpy(tile[0], out[0])
    await core.memcpy(tile[1:16], x[1:16])
    await core.memcpy(out[1:16], tile[1:16])


@fault("race")
async def weights_used_before_they_arrive(core, x, out):
    if core.is_memory_core or core.core_id:
        return
    rows, result = core.nram.alloc((16, 64), x.dtype, "rows"), core.nram.alloc((16, 64), x.dtype, "result")
    weights = core.wram.alloc((64, 64), x.dtype, "weights")
    filters = core.nram.alloc((64, 64), x.dtype, "filters")
    laid = core.nram.alloc((64, 64), x.dtype, "laid")
    await core.memcpy(rows, x)
    core.write_value(filters, 1.0)
    core.reshape_filter(laid, filters)
    await core.sync()
    core.memcpy_async(weights, laid)
    core.matmul(result, rows, weights)
    await core.memcpy(out, result)


@fault("release", "race")
async def released_while_a_store_is_in_flight(core, x, out):
    if core.is_memory_core:
        return
    for row in range(core.core_id, 16, 4):
        with core.nram.scope():
            tile = core.nram.alloc(64, x.dtype, "tile")
            await core.memcpy(tile, x[row])
            core.memcpy_async(out[row], tile)
    await core.sync()


@fault("release", "race")
async def released_while_a_load_is_in_flight(core, x, out):
    if core.is_memory_core:
        return
    with core.nram.scope():
        ahead = core.nram.alloc((4, 64), x.dtype, "ahead")
        core.memcpy_async(ahead, x[0:4])
    tile = core.nram.alloc((4, 64), x.dtype, "tile")
    core.write_zero(tile)
    await core.memcpy(out[core.core_id * 4 : core.core_id * 4 + 4], tile)
