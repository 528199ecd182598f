"""Barriers and SRAM."""

from __future__ import annotations

from faulty_kernels.registry import fault


@fault("task-race")
async def barrier_of_cores_where_the_memory_core_loads(core, x, out):
    held = core.sram.alloc(x.shape, x.dtype, "held")
    if core.is_memory_core:
        await core.memcpy(held, x)
        return
    await core.sync_all_ipu()
    tile = core.nram.alloc((4, 64), x.dtype, "tile")
    rows = slice(core.core_id * 4, core.core_id * 4 + 4)
    await core.memcpy(tile, held[rows])
    await core.memcpy(out[rows], tile)


@fault("hang")
async def barrier_in_one_branch(core, x, out):
    if core.is_memory_core:
        await core.sync_cluster()
        return
    tile = core.nram.alloc((4, 64), x.dtype, "tile")
    rows = slice(core.core_id * 4, core.core_id * 4 + 4)
    await core.memcpy(tile, x[rows])
    if core.core_id != 3:
        await core.sync_cluster()
    await core.memcpy(out[rows], tile)


@fault("hang")
async def early_return_of_an_idle_core(core, x, out):
    if core.core_id == 3:
        return
    held = core.sram.alloc((3, 64), x.dtype, "held")
    if not core.is_memory_core:
        tile = core.nram.alloc(64, x.dtype, "tile")
        await core.memcpy(tile, x[core.core_id])
        await core.memcpy(held[core.core_id], tile)
    await core.sync_cluster()
    if core.is_memory_core:
        await core.memcpy(out[0:3], held)


@fault("task-race", dim=(8, 1, 1), kind="UNION2")
async def cluster_barrier_for_two_clusters(core, x, out):
    if not core.is_memory_core:
        tile = core.nram.alloc(64, x.dtype, "tile")
        await core.memcpy(tile, x[core.task_id])
        await core.memcpy(out[core.task_id], tile)
    await core.sync_cluster()
    if not core.is_memory_core:
        await core.memcpy(tile, out[(core.task_id + 4) % 8])
        await core.memcpy(out[core.task_id + 8], tile)


@fault("task-race")
async def neighbours_read_sram_without_a_barrier(core, x, out):
    if core.is_memory_core:
        return
    box = core.sram.alloc((4, 64), x.dtype, "box")
    tile = core.nram.alloc(64, x.dtype, "tile")
    await core.memcpy(tile, x[core.core_id])
    await core.memcpy(box[core.core_id], tile)
    await core.memcpy(tile, box[(core.core_id + 1) % 4])
    await core.memcpy(out[core.core_id], tile)


@fault("task-race")
async def sram_refilled_before_the_last_reader(core, x, out):
    box = core.sram.alloc((4, 64), x.dtype, "box")
    tile = None if core.is_memory_core else core.nram.alloc(64, x.dtype, "tile")
    for step in range(4):
        if core.is_memory_core:
            await core.memcpy(box, x[4 * step : 4 * step + 4])
        await core.sync_cluster()
        if not core.is_memory_core:
            await core.memcpy(tile, box[core.core_id])
            await core.memcpy(out[4 * step + core.core_id], tile)


@fault("uninitialised")
async def memory_core_prefetches_into_the_same_half(core, x, out):
    box = core.sram.alloc((2, 4, 64), x.dtype, "box")
    tile = None if core.is_memory_core else core.nram.alloc(64, x.dtype, "tile")
    for step in range(5):
        if core.is_memory_core:
            if step < 4:
                # step % 2 is meant.
                core.memcpy_async(box[0], x[4 * step : 4 * step + 4])
        elif step:
            await core.memcpy(tile, box[(step - 1) % 2, core.core_id])
            await core.memcpy(out[4 * (step - 1) + core.core_id], tile)
        await core.sync_cluster()


@fault("task-race")
async def result_read_from_gdram_in_the_same_launch(core, x, out):
    if core.is_memory_core:
        return
    tile = core.nram.alloc((4, 64), x.dtype, "tile")
    mine, next_ = core.core_id * 4, (core.core_id + 1) % 4 * 4
    await core.memcpy(tile, x[mine : mine + 4])
    await core.memcpy(out[mine : mine + 4], tile)
    await core.memcpy(tile, out[next_ : next_ + 4])
    core.mul(tile, tile, 2.0)


@fault("task-race", kind="BLOCK")
async def sync_all_of_block_tasks(core, x, out):
    tile = core.nram.alloc((4, 64), x.dtype, "tile")
    mine, next_ = core.task_id * 4, (core.task_id + 1) % 4 * 4
    await core.memcpy(tile, x[mine : mine + 4])
    await core.memcpy(out[mine : mine + 4], tile)
    await core.sync_all()
    await core.memcpy(tile, out[next_ : next_ + 4])
