"""In place, accumulators, scratch memory."""

from __future__ import annotations

import numpy as np

from mlusim import InOut, Output
from vendor_idioms.registry import OUT, TOTAL, X, idiom


@idiom(InOut(X), reference=2 * X)
async def in_place(core, x):
    if core.is_memory_core:
        return
    tile = core.nram.alloc(64, x.dtype, "tile")
    for row in range(core.task_id, 24, core.task_dim):
        await core.memcpy(tile, x[row])
        core.add(tile, tile, tile)
        await core.memcpy(x[row], tile)


@idiom(InOut(X), reference=X[::-1])
async def rows_swapped_in_place_behind_a_barrier(core, x):
    if not core.is_memory_core:
        tile = core.nram.alloc((6, 64), x.dtype, "tile")
        first = 6 * core.core_id
        await core.memcpy(tile, x[first : first + 6])
    await core.sync_cluster()
    if not core.is_memory_core:
        for row in range(6):
            await core.memcpy(x[23 - first - row], tile[row])


@idiom(X, InOut(np.zeros(64, np.float32)), reference=X.sum(axis=0), dim=(4, 2, 1))
async def sum_by_atomics_on_a_cleared_output(core, x, total):
    if core.is_memory_core:
        return
    tile = core.nram.alloc(64, x.dtype, "tile")
    for row in range(core.task_id, 24, core.task_dim):
        await core.memcpy(tile, x[row])
        await core.atomic_reduce_add(total, tile)


@idiom(X, InOut(np.zeros(64, np.float32)), reference=X.sum(axis=0))
async def sum_under_a_lock(core, x, total):
    if core.is_memory_core:
        return
    tile, held = (core.nram.alloc(64, x.dtype, name) for name in ("tile", "held"))
    for row in range(core.task_id, 24, core.task_dim):
        await core.memcpy(tile, x[row])
        await core.lock(0)
        await core.memcpy(held, total)
        core.add(held, held, tile)
        await core.memcpy(total, held)
        await core.unlock(0)


@idiom(X[:, :50], Output((24, 50)), reference=2 * X[:, :50])
async def copies_within_nram_in_the_compute_stream(core, x, out):
    if core.is_memory_core:
        return
    tile, copy = (core.nram.alloc(64, x.dtype, name) for name in ("tile", "copy"))
    for row in range(core.task_id, 24, core.task_dim):
        await core.memcpy(tile[0:50], x[row])
        core.memcpy_async(copy, tile)
        core.add(copy, copy, tile)
        await core.memcpy(out[row], copy[0:50])


@idiom(X, TOTAL, reference=X.sum(axis=0))
async def sum_by_atomics_after_a_clear(core, x, total):
    if core.core_id == 0:
        await core.gdramset(total, 0.0)
    await core.sync_cluster()
    if core.is_memory_core:
        return
    tile = core.nram.alloc(64, x.dtype, "tile")
    for row in range(core.task_id, 24, core.task_dim):
        await core.memcpy(tile, x[row])
        await core.atomic_reduce_add(total, tile)


@idiom(X, TOTAL, reference=X.max(axis=0))
async def maximum_by_atomics_after_a_store(core, x, total):
    if not core.is_memory_core:
        tile = core.nram.alloc(64, x.dtype, "tile")
    if core.core_id == 0:
        core.write_value(tile, -1e30)
        await core.memcpy(total, tile)
    await core.sync_cluster()
    if core.is_memory_core:
        return
    for row in range(core.task_id, 24, core.task_dim):
        await core.memcpy(tile, x[row])
        await core.atomic_reduce_max(total, tile)


@idiom(X, TOTAL, reference=X.max(axis=0))
async def exchange_into_fresh_memory(core, x, total):
    """`exch` reads nothing that it keeps."""
    if core.is_memory_core or core.core_id:
        return
    tile = core.nram.alloc((24, 64), x.dtype, "tile")
    await core.memcpy(tile, x)
    held = core.nram.alloc(64, x.dtype, "held")
    core.max_rows(held, tile)
    await core.sync()
    await core.atomic_reduce_exch(total, held)


@idiom(X, InOut(np.zeros(64, np.float32)), InOut(np.zeros(1, np.int32)), reference={"total": X[:8].sum(axis=0)})
async def spin_lock_released_by_an_exchange(core, x, total, lock):
    if core.is_memory_core:
        return
    tile, held = (core.nram.alloc(64, x.dtype, name) for name in ("tile", "held"))
    old = core.nram.alloc(1, "int32", "old")
    for row in range(core.task_id, 8, core.task_dim):
        await core.memcpy(tile, x[row])
        while True:
            await core.atomic_cas(old, lock, 0, 1)
            if not await core.load(old[0]):
                break
        await core.memcpy(held, total)
        core.add(held, held, tile)
        await core.memcpy(total, held)
        await core.atomic_reduce_exch(lock, 0)


@idiom(X, InOut(np.zeros(1, np.int32)), reference={"found": np.ones(1, np.int32)})
async def flag_that_several_tasks_set(core, x, found):
    """Each of them may, as all write the same number."""
    if core.is_memory_core:
        return
    if await core.load(x[core.task_id, 0]) < np.inf:
        await core.atomic_reduce_exch(found, 1)


@idiom(X, InOut(np.zeros(1, np.int32)), OUT, reference={"out": 2 * X, "counter": np.array([28], np.int32)})
async def rows_taken_from_an_atomic_counter(core, x, counter, out):
    """A persistent kernel: each task takes the next row until there are none."""
    if core.is_memory_core:
        return
    old, tile = core.nram.alloc(1, "int32", "old"), core.nram.alloc(64, x.dtype, "tile")
    while True:
        await core.atomic_add(old, counter, 1)
        row = await core.load(old[0])
        if row >= 24:
            return
        await core.memcpy(tile, x[row])
        core.add(tile, tile, tile)
        await core.memcpy(out[row], tile)


@idiom(X, OUT, reference=X.sum(axis=0) + np.zeros_like(X))
async def output_as_scratch_of_one_task(core, x, out):
    if core.is_memory_core or core.core_id:
        return
    tile, total = core.nram.alloc((24, 64), x.dtype, "tile"), core.nram.alloc(64, x.dtype, "total")
    await core.memcpy(tile, x)
    core.sum_rows(total, tile)
    await core.memcpy(out, total.reshape(1, 64).broadcast_to(24, 64))


@idiom(X, OUT, reference=X + 1)
async def spilled_to_ldram(core, x, out):
    if core.is_memory_core:
        return
    spill = core.ldram.alloc((6, 64), x.dtype, "spill")
    tile = core.nram.alloc(64, x.dtype, "tile")
    first = 6 * core.core_id
    for row in range(6):
        await core.memcpy(tile, x[first + row])
        await core.memcpy(spill[row], tile)
    for row in range(6):
        await core.memcpy(tile, spill[row])
        core.add(tile, tile, 1.0)
        await core.memcpy(out[first + row], tile)


@idiom(X, np.array([3, 0, 5, 7, 11, 2, 1, 9], np.int32), Output((8, 64)), reference=X[[3, 0, 5, 7, 11, 2, 1, 9]])
async def indices_loaded_by_scalar_code(core, x, index, out):
    if core.is_memory_core:
        return
    rows, tile = core.nram.alloc(2, "int32", "rows"), core.nram.alloc(64, x.dtype, "tile")
    await core.memcpy(rows, index[2 * core.core_id : 2 * core.core_id + 2])
    for turn in range(2):
        row = await core.load(rows[turn])
        await core.memcpy(tile, x[row])
        await core.memcpy(out[2 * core.core_id + turn], tile)


@idiom(X, Output((24,)), reference=X[:, 0])
async def scalar_stores_to_distinct_elements(core, x, out):
    if core.is_memory_core:
        return
    for row in range(core.task_id, 24, core.task_dim):
        value = await core.load(x[row, 0])
        core.store(out[row], value)


@idiom(X, OUT, reference=X)
async def scopes_with_syncs(core, x, out):
    if core.is_memory_core:
        return
    for row in range(core.task_id, 24, core.task_dim):
        with core.nram.scope():
            tile = core.nram.alloc(64, x.dtype, "tile")
            core.memcpy_async(tile, x[row])
            await core.sync_io()
            core.memcpy_async(out[row], tile)
            await core.sync_io()


@idiom(X, OUT, reference=X, dim=(32, 1, 1), kind="BLOCK")
async def more_tasks_than_rows(core, x, out):
    if core.task_id >= 24:
        return
    tile = core.nram.alloc(64, x.dtype, "tile")
    await core.memcpy(tile, x[core.task_id])
    await core.memcpy(out[core.task_id], tile)


@idiom(X, OUT, reference=X)
async def write_value_then_the_part_that_counts(core, x, out):
    """A cleared tile, a part of which a load replaces on every path."""
    if core.is_memory_core:
        return
    tile = core.nram.alloc((8, 64), x.dtype, "tile")
    for first in range(8 * core.core_id, 24, 32):
        core.write_zero(tile)
        await core.sync_compute()
        await core.memcpy(tile, x[first : first + 8])
        await core.memcpy(out[first : first + 8], tile)


@idiom(X, OUT, reference=np.where(X > 25, X, 0).astype(np.float32))
async def mask_and_select(core, x, out):
    if core.is_memory_core:
        return
    tile, mask = (core.nram.alloc((6, 64), x.dtype, name) for name in ("tile", "mask"))
    rows = slice(6 * core.core_id, 6 * core.core_id + 6)
    await core.memcpy(tile, x[rows])
    core.gt(mask, tile, 25.0)
    core.mul(tile, tile, mask)
    await core.memcpy(out[rows], tile)
