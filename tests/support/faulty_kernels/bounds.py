"""Bounds, tiles, strides."""

from __future__ import annotations

import numpy as np

import mlusim
from faulty_kernels.registry import X, fault


@fault("never-written", reference=X)
async def last_tile_dropped(core, x, out):
    if core.is_memory_core:
        return
    tile = core.nram.alloc((3, 64), x.dtype, "tile")
    for tile_id in range(core.core_id, 16 // 3, 4):
        await core.memcpy(tile, x[3 * tile_id : 3 * tile_id + 3])
        await core.memcpy(out[3 * tile_id : 3 * tile_id + 3], tile)


@fault("written-again", "task-race", reference=X)
async def tiles_overlap_by_a_row(core, x, out):
    if core.is_memory_core:
        return
    first, last = core.core_id * 4, min(core.core_id * 4 + 5, 16)
    tile = core.nram.alloc((5, 64), x.dtype, "tile")
    await core.memcpy(tile[0 : last - first], x[first:last])
    await core.memcpy(out[first:last], tile[0 : last - first])


@fault("access")
async def one_row_too_many(core, x, out):
    if core.is_memory_core:
        return
    tile = core.nram.alloc((5, 64), x.dtype, "tile")
    first = core.core_id * 4
    await core.memcpy(tile, x[first : first + 5])
    await core.memcpy(out[first : first + 4], tile[0:4])


@fault("written-again", reference=X)
async def stride_in_elements_instead_of_bytes(core, x, out):
    if core.is_memory_core or core.core_id:
        return
    tile = core.nram.alloc((16, 32), x.dtype, "tile")
    for half in range(2):
        source = x.pointer + 32 * half
        target = out.pointer + 32 * half
        await core.memcpy(tile.pointer, source, 128, mlusim.Direction.GDRAM2NRAM, 128, 64 * 4, 15)
        await core.memcpy(target, tile.pointer, 128, mlusim.Direction.NRAM2GDRAM, 64 * 2, 128, 15)


@fault("wrong-value", reference=X)
async def source_stride_of_another_tensor(core, x, out):
    if core.is_memory_core or core.core_id:
        return
    tile = core.nram.alloc((16, 32), x.dtype, "tile")
    for half in range(2):
        source = x.pointer + 32 * half
        await core.memcpy(tile.pointer, source, 128, mlusim.Direction.GDRAM2NRAM, 128, 192, 15)
        await core.memcpy(out[0:16, 32 * half : 32 * half + 32], tile)


@fault("never-written", reference=X)
async def number_of_segments_for_segments_minus_one_less(core, x, out):
    if core.is_memory_core or core.core_id:
        return
    tile = core.nram.alloc((16, 64), x.dtype, "tile")
    await core.memcpy(tile, x)
    await core.memcpy(out.pointer, tile.pointer, 256, mlusim.Direction.NRAM2GDRAM, 256, 256, 14)


@fault("task-race", reference=X, dim=(8, 1, 1))
async def grid_stride_of_a_constant(core, x, out):
    if core.is_memory_core:
        return
    tile = core.nram.alloc(64, x.dtype, "tile")
    # core.task_dim is 8 here, and the first index counts cores of a cluster.
    for row in range(core.core_id, 16, 8):
        await core.memcpy(tile, x[row])
        await core.memcpy(out[row], tile)


@fault("written-again", "task-race", dim=(4, 2, 1))
async def y_of_the_grid_forgotten(core, x, out):
    if core.is_memory_core:
        return
    tile = core.nram.alloc((4, 64), x.dtype, "tile")
    rows = slice(core.task_id_x * 4, core.task_id_x * 4 + 4)
    await core.memcpy(tile, x[rows])
    await core.memcpy(out[rows], tile)


@fault("never-written", dim=(8, 2, 1))
async def dim_larger_than_the_split(core, x, out):
    if core.is_memory_core:
        return
    rows = 16 // core.task_dim_x // 2
    tile = core.nram.alloc((rows, 64), x.dtype, "tile")
    first = core.task_id_x * rows
    if core.task_id_y:
        return
    await core.memcpy(tile, x[first : first + rows])
    await core.memcpy(out[first : first + rows], tile)


@fault("written-again")
async def a_row_done_twice_by_one_task(core, x, out):
    if core.is_memory_core:
        return
    tile = core.nram.alloc(64, x.dtype, "tile")
    for row in [*range(core.core_id, 16, 4), core.core_id]:
        await core.memcpy(tile, x[row])
        await core.memcpy(out[row], tile)


@fault("written-again")
async def double_write_within_one_copy_of_rows(core, x, out):
    if core.is_memory_core or core.core_id:
        return
    tile = core.nram.alloc((16, 64), x.dtype, "tile")
    await core.memcpy(tile, x)
    rows = np.arange(16)
    rows[3] = 4
    await core.memcpy_rows(out, tile, dst_rows=rows)
    await core.memcpy(out[3], tile[3])


@fault("task-race")
async def two_cores_write_one_row(core, x, out):
    if core.is_memory_core:
        return
    tile = core.nram.alloc(64, x.dtype, "tile")
    for row in range(core.core_id, 16, 4):
        await core.memcpy(tile, x[row])
        await core.memcpy(out[row], tile)
    if core.core_id < 2:
        await core.memcpy(out[15], tile)


@fault("task-race")
async def every_core_writes_the_total(core, x, out):
    if core.is_memory_core:
        return
    tile = core.nram.alloc((16, 64), x.dtype, "tile")
    await core.memcpy(tile, x)
    await core.memcpy(out, tile)
