"""Suggestions: each kernel is changed as suggested, run, and compared with the prediction.

The table in docs/retime.md contains these pairs.
"""

from __future__ import annotations

import numpy as np
import pytest

import mlusim
from mlusim.explore.suggestions import what_to_try

ROWS, COLUMNS = 8192, 512  # 16 MiB each way


def parts(core, x, rows):
    return range(core.task_id * rows, 0 if core.is_memory_core else x.shape[0], core.task_dim * rows)


async def small_tiles(core, x, out, rows=2):
    held = None if core.is_memory_core else core.nram.alloc((rows, x.shape[1]), x.dtype)
    for row in parts(core, x, rows):
        await core.memcpy(held, x[row : row + rows])
        core.add(held, held, held)
        await core.sync_compute()
        await core.memcpy(out[row : row + rows], held)


async def large_tiles(core, x, out):
    await small_tiles(core, x, out, 64)


async def two_buffers(core, x, out, rows=2):
    if core.is_memory_core:
        return
    held, todo = core.nram.alloc((2, rows, x.shape[1]), x.dtype), [*parts(core, x, rows)]
    core.memcpy_async(held[0], x[todo[0] : todo[0] + rows])
    for k, row in enumerate(todo):
        await core.sync()
        if k + 1 < len(todo):
            core.memcpy_async(held[(k + 1) % 2], x[todo[k + 1] : todo[k + 1] + rows])
        core.add(held[k % 2], held[k % 2], held[k % 2])
        await core.sync_compute()
        core.memcpy_async(out[row : row + rows], held[k % 2])
    await core.sync()


async def two_buffers_of_a_row(core, x, out):
    await two_buffers(core, x, out, 1)


async def short_instructions(core, x, out, length=128):
    held = None if core.is_memory_core else core.nram.alloc((32, x.shape[1]), x.dtype)
    for row in parts(core, x, 32):
        await core.memcpy(held, x[row : row + 32])
        flat = held.reshape(-1)
        for first in range(0, flat.size, length):
            core.add(*[flat[first : first + length]] * 3)
        await core.sync_compute()
        await core.memcpy(out[row : row + 32], held)


async def long_instructions(core, x, out):
    await short_instructions(core, x, out, 32 * COLUMNS)


async def columns(core, x, out):
    held = None if core.is_memory_core else core.nram.alloc((1024, 16), x.dtype)
    tiles = x.shape[0] // 1024 * (x.shape[1] // 16)
    for tile in range(core.task_id, 0 if core.is_memory_core else tiles, core.task_dim):
        row, column = tile // (x.shape[1] // 16) * 1024, tile % (x.shape[1] // 16) * 16
        await core.memcpy(held, x[row : row + 1024, column : column + 16])
        await core.memcpy(out[row : row + 1024, column : column + 16], held)


async def whole_rows(core, x, out, first=0, count=ROWS):
    held = None if core.is_memory_core else core.nram.alloc((16, x.shape[1]), x.dtype)
    for row in parts(core, x[:count], 16):
        await core.memcpy(held, x[first + row : first + row + 16])
        await core.memcpy(out[first + row : first + row + 16], held)


async def a_barrier_each_time(core, x, out, every=1):
    held = None if core.is_memory_core else core.nram.alloc((4, x.shape[1]), x.dtype)
    for k in range(x.shape[0] // (4 * core.task_dim)):
        if held is not None:
            row = (k * core.task_dim + core.task_id) * 4
            await core.memcpy(held, x[row : row + 4])
            await core.memcpy(out[row : row + 4], held)
        if k % every == every - 1:
            await core.sync_all()


async def few_barriers(core, x, out):
    await a_barrier_each_time(core, x, out, 16)


async def uneven(core, x, out, block=240):
    """Blocks of rows, each core every 32nd: 35 blocks of 240 rows."""
    held = None if core.is_memory_core else core.nram.alloc((16, x.shape[1]), x.dtype)
    for first in parts(core, x, block):
        for row in range(first, min(first + block, x.shape[0]), 16):
            await core.memcpy(held, x[row : row + 16])
            await core.memcpy(out[row : row + 16], held)


async def even(core, x, out):
    await uneven(core, x, out, 256)


async def loaded_twice(core, x, out):
    held = None if core.is_memory_core else core.nram.alloc((16, x.shape[1]), x.dtype)
    for row in parts(core, x, 16):
        core.memcpy_async(held, x[row : row + 16])
        core.memcpy_async(held, x[row : row + 16])
        await core.memcpy(out[row : row + 16], held)


def time_of(kernel, launches=1):
    device = mlusim.Device("mlu370-x4", data=False)
    x = device.upload(np.zeros((ROWS, COLUMNS), np.float32), "x")
    out = device.alloc((ROWS, COLUMNS), "float32")
    for number in range(launches):
        more = () if launches == 1 else (number * (ROWS // launches), ROWS // launches)
        device.launch(kernel, x, out, *more)
    device.synchronize()
    return device.result()


@pytest.mark.grid(2)
@pytest.mark.parametrize(
    ("loss", "before", "after", "tolerance"),
    [
        ("latency", small_tiles, large_tiles, 0.005),
        ("latency", small_tiles, two_buffers, 0.01),
        ("compute", short_instructions, long_instructions, 0.01),
        ("strided", columns, whole_rows, 0.02),
        ("sync", a_barrier_each_time, few_barriers, 0.005),
        ("idle", uneven, even, 0.02),
        ("extra_bytes", loaded_twice, whole_rows, 0.02),
    ],
)
def test_a_prediction_is_the_time_of_the_changed_kernel(loss, before, after, tolerance):
    found = time_of(before)
    tries = {suggestion.loss: suggestion.time_ps for suggestion in what_to_try(found, 6)}
    assert tries[loss] == min(tries.values())
    real = time_of(after).time_ps
    assert real < found.time_ps
    assert "launch" not in tries
    assert tries[loss] == pytest.approx(real, rel=tolerance)


def test_two_buffers_are_not_suggested_to_a_kernel_that_has_them():
    """Its loads are in flight while it computes and stores."""
    changes = [
        {item.loss: item.change for item in what_to_try(time_of(kernel), 6)}["latency"]
        for kernel in (small_tiles, two_buffers_of_a_row)
    ]
    first = "hide the start-up of copies: larger tiles"
    assert changes == [f"{first}, or double buffering", first]


def test_a_searched_plan_with_fewer_tasks_than_cores_is_not_called_uneven():
    result = mlusim.ops.flip(np.zeros((64, 64), np.float32), 1, data=False)
    assert len(result.log.tasks) < 32
    assert [item for item in what_to_try(result) if item.loss == "idle"] == []


def test_tasks_for_idle_cores_cost_the_start_up_of_their_copies():
    async def one_row(core, x, out):
        """Copy rows of 2 KiB; two tasks take a row each."""
        held = None if core.is_memory_core or core.task_id > 1 else core.nram.alloc(512, x.dtype)
        if held is not None:
            await core.memcpy(held, x[core.task_id])
            await core.memcpy(out[core.task_id], held)

    x = np.zeros((2, 512), np.float32)
    found = mlusim.run(one_row, x, mlusim.Output.like(x), data=False)
    board = found.board
    least_ps = board.kernel_start_ps + board.dma_read_latency_ps + board.dma_write_latency_ps
    assert all(item.time_ps > least_ps for item in what_to_try(found) if item.loss == "idle")


@pytest.mark.parametrize(("device", "tile", "even"), [("mlu370-x4", 4096, 3920), ("mlu590-h8", 16384, 20834)])
def test_an_even_share_gains_at_most_what_cores_that_share_the_dram_leave(device, tile, even):
    async def double(core, x, out, tile):
        held = None if core.is_memory_core else core.nram.alloc(tile, x.dtype)
        for start in range(core.task_id * tile, 0 if core.is_memory_core else x.size, core.task_dim * tile):
            n = min(tile, x.size - start)
            await core.memcpy(held[:n], x[start : start + n])
            core.add(held[:n], held[:n], held[:n])
            await core.memcpy(out[start : start + n], held[:n])

    x = np.zeros(1_000_000, np.float32)
    uneven, changed = (
        mlusim.run(double, x, mlusim.Output.like(x), data=False, device=device, tile=n) for n in (tile, even)
    )
    (suggestion,) = (item for item in what_to_try(uneven, 9) if item.loss == "idle")
    assert suggestion.time_ps == pytest.approx(changed.time_ps, rel=0.05)


def test_a_full_dram_gains_nothing_by_an_even_share():
    """18 cores fill the DRAM, so work on the other cores would change little."""

    async def few_cores(core, x, out):
        await uneven(core, x, out, 608)

    found = time_of(few_cores)
    tries = {suggestion.loss: suggestion for suggestion in what_to_try(found, 6)}
    assert tries["idle"].time_ps == pytest.approx(time_of(even).time_ps, rel=0.02)
    assert tries["idle"].change.endswith("; 18 of 32 cores have none")


def test_merging_launches_gains_more_than_launch_overhead():
    found, real = time_of(whole_rows, launches=16), time_of(whole_rows)
    first = what_to_try(found)[0]
    assert first.loss == "launch"
    assert 0.94 * first.time_ps < real.time_ps < first.time_ps
