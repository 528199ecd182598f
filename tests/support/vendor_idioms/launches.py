"""Launches and queues."""

from __future__ import annotations

import mlusim
from vendor_idioms.pipelines import blocking_copies_without_a_sync
from vendor_idioms.registry import X, host_idiom


@host_idiom
def launches_of_one_queue_follow_each_other():
    device = mlusim.Device()
    x, middle, out = device.upload(X, "x"), device.alloc(X.shape, X.dtype, "middle"), device.alloc(X.shape, X.dtype)
    device.launch(blocking_copies_without_a_sync, x, middle, dim=4)
    device.launch(blocking_copies_without_a_sync, middle, out, dim=4)
    device.synchronize()
    return device.verify()


@host_idiom
def two_queues_with_a_wait_between():
    device = mlusim.Device()
    x, middle, out = device.upload(X, "x"), device.alloc(X.shape, X.dtype, "middle"), device.alloc(X.shape, X.dtype)
    device.launch(blocking_copies_without_a_sync, x, middle, dim=4, queue=device.queue())
    device.synchronize()
    device.launch(blocking_copies_without_a_sync, middle, out, dim=4, queue=device.queue())
    device.synchronize()
    return device.verify()


@host_idiom
def two_queues_on_halves_of_one_output():
    device = mlusim.Device()
    x, out = device.upload(X, "x"), device.alloc((48, 64), X.dtype, "out")
    for half in range(2):
        device.launch(blocking_copies_without_a_sync, x, out[24 * half : 24 * half + 24], dim=4, queue=device.queue())
    device.synchronize()
    return device.verify()


@host_idiom
def one_output_written_by_two_launches_in_turn():
    device = mlusim.Device()
    x, out = device.upload(X, "x"), device.alloc(X.shape, X.dtype, "out")
    for _ in range(2):
        device.launch(blocking_copies_without_a_sync, x, out, dim=4)
    device.synchronize()
    return device.verify()


@host_idiom
def partial_sums_in_a_workspace():
    device = mlusim.Device()
    x, space = device.upload(X, "x"), device.alloc((8, 64), X.dtype, "space", workspace=True)
    out = device.alloc(64, X.dtype, "out")

    async def parts(core, x, space):
        if core.is_memory_core:
            return
        tile, total = core.nram.alloc((6, 64), x.dtype, "tile"), core.nram.alloc(64, x.dtype, "total")
        await core.memcpy(tile, x[6 * core.core_id : 6 * core.core_id + 6])
        core.sum_rows(total, tile)
        await core.memcpy(space[core.core_id], total)

    async def whole(core, space, out):
        tile, total = core.nram.alloc((4, 64), x.dtype, "tile"), core.nram.alloc(64, x.dtype, "total")
        await core.memcpy(tile, space[0:4])
        core.sum_rows(total, tile)
        await core.memcpy(out, total)

    device.launch(parts, x, space, dim=4)
    device.launch(whole, space, out, dim=1, kind="BLOCK")
    device.synchronize()
    return device.verify()
