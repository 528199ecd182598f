"""Launches, queues, and communication that the board does not support."""

from __future__ import annotations

from typing import Any

import mlusim
from faulty_kernels.registry import X, fault, host_fault

SHARED: dict[int, Any] = {}


@fault("host-data")
async def values_passed_through_a_closure(core, x, out):
    if core.is_memory_core:
        return
    tile = core.nram.alloc(64, x.dtype, "tile")
    await core.memcpy(tile, x[core.core_id])
    SHARED[core.core_id] = await core.load_array(tile)
    await core.sync_all_ipu()
    other = SHARED[(core.core_id + 1) % 4]
    core.store_array(out[core.core_id], other)
    await core.sync()


@host_fault("task-race")
def two_queues_write_and_read():
    device = mlusim.Device()
    x, middle, out = device.upload(X, "x"), device.alloc(X.shape, X.dtype, "middle"), device.alloc(X.shape, X.dtype)
    device.launch(copy, x, middle, dim=4, queue=device.queue())
    device.launch(copy, middle, out, dim=4, queue=device.queue())
    device.synchronize()
    return device.verify()


@host_fault("task-race")
def two_queues_write_one_output():
    device = mlusim.Device()
    x, out = device.upload(X, "x"), device.alloc(X.shape, X.dtype, "out")
    device.launch(copy, x, out, dim=4, queue=device.queue())
    device.launch(copy, x, out, dim=4, queue=device.queue())
    device.synchronize()
    return device.verify()


@host_fault("never-written")
def output_that_no_task_touches():
    device = mlusim.Device()
    x, out = device.upload(X, "x"), device.alloc(X.shape, X.dtype, "out")
    other = device.alloc(X.shape, X.dtype, "other")

    async def kernel(core, x, out, other):
        await copy(core, x, out)

    device.launch(kernel, x, out, other, dim=4)
    device.synchronize()
    return device.verify()


@host_fault("uninitialised")
def second_launch_reads_what_the_first_left_out():
    device = mlusim.Device()
    x, middle = device.upload(X, "x"), device.alloc(X.shape, X.dtype, "middle", workspace=True)
    out = device.alloc(X.shape, X.dtype, "out")

    async def half(core, x, out):
        if core.is_memory_core or core.core_id > 1:
            return
        await copy(core, x, out)

    device.launch(half, x, middle, dim=4)
    device.launch(copy, middle, out, dim=4)
    device.synchronize()
    return device.verify()


@host_fault("task-race")
def one_workspace_for_two_queues():
    device = mlusim.Device()
    x, space = device.upload(X, "x"), device.alloc(X.shape, X.dtype, "space", workspace=True)
    for name in ("out", "other"):
        device.launch(through, x, space, device.alloc(X.shape, X.dtype, name), dim=4, queue=device.queue())
    device.synchronize()
    return device.verify()


async def copy(core, x, out):
    if core.is_memory_core:
        return
    tile = core.nram.alloc((4, 64), x.dtype, "tile")
    rows = slice(core.core_id * 4, core.core_id * 4 + 4)
    await core.memcpy(tile, x[rows])
    await core.memcpy(out[rows], tile)


async def through(core, x, space, out):
    await copy(core, x, space)
    await copy(core, space, out)
