"""The mode `dma="late"`: an asynchronous copy takes effect only when a sync orders it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mlusim.cores.core import Core
from mlusim.hardware import board
from mlusim.host.device import Device
from mlusim.memory.view import View

X4 = board("mlu370-x4")


async def double_buffered(core: Core, x: View, out: View, dropped: int) -> None:
    """x + 1, tile by tile, loads ahead of the arithmetic; `dropped`: the sync to leave out."""
    rows = x.shape[0]
    tiles = [core.nram.alloc(x.shape[1], x.dtype) for _ in range(2)]
    core.memcpy_async(tiles[0], x[0])
    for row in range(rows):
        if dropped != 0:
            await core.sync_io()  # the load of this tile, and the store of the other
        if row + 1 < rows:
            core.memcpy_async(tiles[(row + 1) % 2], x[row + 1])
        core.add(tiles[row % 2], tiles[row % 2], 1)
        if dropped != 1:
            await core.sync_compute()
        core.memcpy_async(out[row], tiles[row % 2])


@pytest.mark.parametrize("dma", ["complete", "late"])
def test_a_sound_kernel_is_right_with_complete_and_late_copies(run: Any, dma: str) -> None:
    device = Device(dma=dma)
    x = np.arange(6 * 512, dtype=np.float32).reshape(6, 512)
    views = device.upload(x), device.alloc(x.shape, x.dtype)
    run(double_buffered, *views, -1, device=device)
    np.testing.assert_array_equal(device.download(views[1]), x + 1)


def test_late_copies_reveal_a_forgotten_sync(run: Any) -> None:
    """A copy that happens to complete in time is late unless a sync orders it."""
    results = {}
    for dma in ("complete", "late"):
        device = Device(dma=dma)
        x, out = device.upload(np.arange(64, dtype=np.uint8)), device.alloc(64, np.uint8)

        async def kernel(core: Core, x: View, out: View) -> None:
            tile, copy = core.nram.alloc(64, np.uint8), core.nram.alloc(64, np.uint8)
            core.memcpy_async(tile, x)
            core.scalar(1_000_000)  # more than long enough
            core.add(copy, tile, 0)  # forgot: await core.sync_io()
            await core.sync_compute()
            core.scalar(0)
            await core.memcpy(out, copy)

        run(kernel, x, out, device=device)
        results[dma] = device.download(out).tolist()
    assert results["complete"] == list(range(64))
    assert results["late"] == [255] * 64


@pytest.mark.parametrize("dropped", [0, 1])
def test_late_copies_reveal_every_dropped_sync(run: Any, dropped: int) -> None:
    # Copies are quick and the addition is slow: nothing is right by luck.
    board = X4.replace(dma_read_latency_ps=0, dma_write_latency_ps=0, vector_startup_cycles=1000)
    device = Device(board, dma="late")
    x = np.arange(6 * 512, dtype=np.float32).reshape(6, 512)
    views = device.upload(x), device.alloc(x.shape, x.dtype)
    run(double_buffered, *views, dropped, device=device)
    assert (device.download(views[1]) != x + 1).any()


def test_late_copies_wait_only_for_a_sync_of_their_pipe(run: Any) -> None:
    device = Device(dma="late")
    x, out = device.upload(np.arange(64, dtype=np.uint8)), device.alloc((3, 64), np.uint8)
    seen: list[int] = []

    async def kernel(core: Core, x: View, out: View) -> None:
        loaded, moved, other = (core.nram.alloc(64, np.uint8) for _ in range(3))
        core.fill(other, 9)
        await core.sync()
        core.memcpy_async(loaded, x)
        core.move(moved, other)
        core.scalar(1_000_000)
        await core.sync_compute()
        seen.append(await core.load(loaded[5]))
        seen.append(await core.load(moved[5]))
        await core.sync_move()
        seen.append(await core.load(loaded[5]))
        seen.append(await core.load(moved[5]))
        await core.sync_io()
        seen.append(await core.load(loaded[5]))

    run(kernel, x, out, device=device)
    assert seen == [255, 255, 255, 9, 5]


def test_late_copies_keep_the_order_of_their_pipe(run: Any) -> None:
    """A blocking copy waits for its pipe, so copies before it act before it, and never after."""
    device = Device(dma="late")
    x, y = device.upload(np.full(64, 1, np.uint8)), device.upload(np.full(64, 2, np.uint8))
    out = device.alloc((2, 64), np.uint8)

    async def kernel(core: Core, x: View, y: View, out: View) -> None:
        tile = core.nram.alloc(64, np.uint8)
        core.memcpy_async(tile, x)
        await core.memcpy(tile, y)
        await core.sync()
        await core.memcpy(out[0], tile)
        core.memcpy_async(tile, x)
        await core.memcpy(out[1], tile)

    run(kernel, x, y, out, device=device)
    assert [set(row.tolist()) for row in device.download(out)] == [{2}, {1}]


def test_late_copies_take_the_same_time(run: Any) -> None:
    tables = []
    for dma in ("complete", "late"):
        device = Device(dma=dma)
        x = np.zeros((6, 512), np.float32)
        run(double_buffered, device.upload(x), device.alloc(x.shape, x.dtype), -1, device=device)
        tables.append(device.log.table())
    np.testing.assert_array_equal(*tables)


def test_late_copies_are_applied_by_the_end_of_the_task(run: Any) -> None:
    device = Device(dma="late")
    x, out = device.upload(np.arange(64, dtype=np.uint8)), device.alloc(64, np.uint8)

    async def kernel(core: Core, x: View, out: View) -> None:
        tile = core.nram.alloc(64, np.uint8)
        await core.memcpy(tile, x)
        core.memcpy_async(out, tile)

    run(kernel, x, out, device=device)
    assert device.download(out).tolist() == list(range(64))


def test_late_copies_are_applied_after_earlier_vector_effects() -> None:
    """The load ends long before the mul begins, but no sync orders them: late, it takes effect after the mul."""
    array = np.arange(64, dtype=np.float32)

    async def kernel(core: Core, x: View, out: View) -> None:
        held, other = core.nram.alloc(64, x.dtype), core.nram.alloc(1 << 16, x.dtype)
        core.memcpy_async(held, x)
        core.fill(other, 0)
        core.mul(held, held, 3.0)
        await core.sync()
        await core.memcpy(out, held)

    for dma, expected in (("complete", 3 * array), ("late", array)):
        device = Device("mlu370-x4", dma=dma)
        out = device.alloc(64, np.float32)
        device.launch(kernel, device.upload(array), out, dim=1, kind="BLOCK")
        device.synchronize()
        assert np.array_equal(device.download(out), expected)
