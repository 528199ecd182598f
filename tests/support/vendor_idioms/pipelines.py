"""Pipelines within a core, SRAM and the memory core."""

from __future__ import annotations

from vendor_idioms.registry import OUT, TOTAL, X, Y, idiom


@idiom(X, OUT, reference=2 * X)
async def blocking_copies_without_a_sync(core, x, out):
    if core.is_memory_core:
        return
    tile = core.nram.alloc(64, x.dtype, "tile")
    for row in range(core.task_id, 24, core.task_dim):
        await core.memcpy(tile, x[row])
        core.add(tile, tile, tile)
        await core.memcpy(out[row], tile)


@idiom(X, OUT, reference=2 * X)
async def three_stages_with_ping_pong(core, x, out):
    if core.is_memory_core:
        return
    tile = core.nram.alloc((2, 64), x.dtype, "tile")
    done = core.nram.alloc((2, 64), x.dtype, "done")
    rows = range(core.task_id, 24, core.task_dim)
    core.memcpy_async(tile[0], x[rows[0]])
    await core.sync()
    for step in range(len(rows)):
        if step:
            core.memcpy_async(out[rows[step - 1]], done[(step - 1) % 2])
        if step + 1 < len(rows):
            core.memcpy_async(tile[(step + 1) % 2], x[rows[step + 1]])
        core.add(done[step % 2], tile[step % 2], tile[step % 2])
        await core.sync()
    await core.memcpy(out[rows[-1]], done[(len(rows) - 1) % 2])


@idiom(X, Y, OUT, reference=X + Y)
async def triple_buffer_with_partial_syncs(core, x, y, out):
    if core.is_memory_core:
        return
    left, right = (core.nram.alloc((3, 64), x.dtype, name) for name in ("left", "right"))
    rows = list(range(core.task_id, 24, core.task_dim))
    for step, row in enumerate(rows):
        slot = step % 3
        core.memcpy_async(left[slot], x[row])
        core.memcpy_async(right[slot], y[row])
        await core.sync_io()
        core.add(left[slot], left[slot], right[slot])
        await core.sync_compute()
        # The next loads of this slot follow on the same pipe.
        core.memcpy_async(out[row], left[slot])
    await core.sync_io()


@idiom(X, OUT, reference=X)
async def loads_and_stores_in_order_on_one_pipe(core, x, out):
    if core.is_memory_core:
        return
    tile = core.nram.alloc(64, x.dtype, "tile")
    for row in range(core.task_id, 24, core.task_dim):
        core.memcpy_async(tile, x[row])
        core.memcpy_async(out[row], tile)


@idiom(X, OUT, reference=2 * X)
async def sync_of_chosen_pipes(core, x, out):
    if core.is_memory_core:
        return
    tile, copy = (core.nram.alloc(64, x.dtype, name) for name in ("tile", "copy"))
    for row in range(core.task_id, 24, core.task_dim):
        core.memcpy_async(tile, x[row])
        await core.sync_io_move_compute(move=False, compute=False)
        core.move(copy, tile)
        await core.sync_io_move_compute(io=False, compute=False)
        core.add(copy, copy, tile)
        await core.sync_io_move_compute(io=False, move=False)
        core.memcpy_async(out[row], copy)
        await core.sync_io()


@idiom(X, OUT, reference=2 * X)
async def five_stages_through_sram(core, x, out):
    fresh, done = (core.sram.alloc((2, 4, 64), x.dtype, name) for name in ("fresh", "done"))
    if not core.is_memory_core:
        tile, result = (core.nram.alloc((2, 64), x.dtype, name) for name in ("tile", "result"))
    steps = 6
    for step in range(steps + 4):
        if core.is_memory_core:
            if step < steps:
                core.memcpy_async(fresh[step % 2], x[4 * step : 4 * step + 4])
            if step >= 4:
                core.memcpy_async(out[4 * (step - 4) : 4 * (step - 3)], done[step % 2])
        else:
            if 1 <= step <= steps:
                core.memcpy_async(tile[(step - 1) % 2], fresh[(step - 1) % 2, core.core_id])
            if 2 <= step <= steps + 1:
                core.add(result[step % 2], tile[step % 2], tile[step % 2])
            if 3 <= step <= steps + 2:
                core.memcpy_async(done[(step - 3) % 2, core.core_id], result[(step - 3) % 2])
        await core.sync_cluster()


@idiom(X, OUT, reference=X + X[0])
async def broadcast_through_sram(core, x, out):
    first = core.sram.alloc(64, x.dtype, "first")
    if core.is_memory_core:
        await core.memcpy(first, x[0])
    await core.sync_cluster()
    if core.is_memory_core:
        return
    held, tile = (core.nram.alloc(64, x.dtype, name) for name in ("held", "tile"))
    await core.memcpy(held, first)
    for row in range(core.task_id, 24, core.task_dim):
        await core.memcpy(tile, x[row])
        core.add(tile, tile, held)
        await core.memcpy(out[row], tile)


@idiom(X, OUT, reference=X + X[0], dim=(4, 2, 1))
async def broadcast_that_every_core_executes(core, x, out):
    first = core.sram.alloc(64, x.dtype, "first")
    if core.is_memory_core:
        await core.sync_cluster()
        return
    await core.memcpy(first, x[0])
    await core.sync_cluster()
    held, tile = (core.nram.alloc(64, x.dtype, name) for name in ("held", "tile"))
    await core.memcpy(held, first)
    for row in range(core.task_id, 24, core.task_dim):
        await core.memcpy(tile, x[row])
        core.add(tile, tile, held)
        await core.memcpy(out[row], tile)


@idiom(X, OUT, reference=2 * X)
async def shared_load_then_own_slice_without_a_barrier(core, x, out):
    """All cores execute the copy to SRAM, so each has waited for it."""
    if core.is_memory_core:
        return
    box = core.sram.alloc((24, 64), x.dtype, "box")
    await core.memcpy(box, x)
    tile = core.nram.alloc((6, 64), x.dtype, "tile")
    rows = slice(6 * core.core_id, 6 * core.core_id + 6)
    await core.memcpy(tile, box[rows])
    core.add(tile, tile, tile)
    await core.memcpy(out[rows], tile)


@idiom(X, TOTAL, reference=X.sum(axis=0), dim=(8, 1, 1), kind="UNION2")
async def tree_of_sums_over_two_clusters(core, x, out):
    parts = core.sram.alloc((4, 64), x.dtype, "parts")
    other = core.sram.alloc((2, 64), x.dtype, "other", cluster=0)
    if not core.is_memory_core:
        tile, total = core.nram.alloc((3, 64), x.dtype, "tile"), core.nram.alloc(64, x.dtype, "total")
        await core.memcpy(tile, x[3 * core.task_id : 3 * core.task_id + 3])
        core.sum_rows(total, tile)
        await core.memcpy(parts[core.core_id], total)
    await core.sync_cluster()
    if core.core_id == 0:
        four = core.nram.alloc((4, 64), x.dtype, "four")
        await core.memcpy(four, parts)
        core.sum_rows(total, four)
        if core.cluster_id == 0:
            await core.memcpy(other[0], total)
        else:
            await core.memcpy(parts[0], total)
    await core.sync_cluster()
    if core.is_memory_core and core.cluster_id == 1:
        await core.memcpy(other[1], parts[0])
    await core.sync_all()
    if core.task_id == 0 and not core.is_memory_core:
        await core.memcpy(tile[0:2], other)
        core.sum_rows(total, tile[0:2])
        await core.memcpy(out, total)
