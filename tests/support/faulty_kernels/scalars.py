"""Scalar accesses and atomics."""

from __future__ import annotations

import numpy as np

from faulty_kernels.registry import X, fault
from mlusim import InOut, Output


@fault("task-race")
async def plain_read_modify_write_of_a_counter(core, x, out):
    if core.is_memory_core:
        return
    tile = core.nram.alloc((4, 64), x.dtype, "tile")
    rows = slice(core.core_id * 4, core.core_id * 4 + 4)
    await core.memcpy(tile, x[rows])
    if core.core_id == 0:
        core.store(out[0, 0], 0.0)
        await core.sync()
    value = await core.load(out[0, 0])
    core.store(out[0, 0], value + 1)
    await core.sync()


TOTALS = (X, Output((64,), "float32"))


@fault("uninitialised", arguments=TOTALS)
async def atomic_sum_on_memory_that_nobody_cleared(core, x, total):
    if core.is_memory_core:
        return
    tile = core.nram.alloc(64, x.dtype, "tile")
    for row in range(core.core_id, 16, 4):
        await core.memcpy(tile, x[row])
        await core.atomic_reduce_add(total, tile)


@fault("task-race", arguments=TOTALS)
async def atomic_sum_with_a_late_clear(core, x, total):
    if core.is_memory_core:
        return
    tile = core.nram.alloc(64, x.dtype, "tile")
    if core.core_id == 0:
        await core.gdramset(total, 0.0)
    for row in range(core.core_id, 16, 4):
        await core.memcpy(tile, x[row])
        await core.atomic_reduce_add(total, tile)


@fault("task-race", arguments=(X, InOut(np.zeros(64, np.float32))))
async def atomics_and_a_plain_store(core, x, total):
    if core.is_memory_core:
        return
    tile = core.nram.alloc(64, x.dtype, "tile")
    await core.memcpy(tile, x[core.core_id])
    if core.core_id == 3:
        await core.memcpy(total, tile)
    else:
        await core.atomic_reduce_add(total, tile)


@fault("task-race", arguments=(X, InOut(np.zeros(64, np.float32)), Output((64,), "float32")))
async def total_read_before_all_have_added(core, x, total, out):
    if core.is_memory_core:
        return
    tile = core.nram.alloc(64, x.dtype, "tile")
    await core.memcpy(tile, x[core.core_id])
    await core.atomic_reduce_add(total, tile)
    if core.core_id == 0:
        await core.memcpy(tile, total)
        await core.memcpy(out, tile)
