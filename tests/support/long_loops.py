"""Kernels that are long loops, and how a run with steady-state timing may differ from the full one."""

from __future__ import annotations

from typing import Any

import numpy as np

import mlusim
from mlusim.cores.core import Core
from mlusim.memory.view import View
from mlusim.results.result import Result

# Of the time, relative to that of the full run.
MAX_ERROR = 0.005


async def copy_rows(core: Core, x: View, out: View) -> None:
    """Blocking copies, row by row."""
    if core.is_memory_core:
        return
    tile = core.nram.alloc(x.shape[1], x.dtype)
    for row in range(core.task_id, x.shape[0], core.task_dim):
        await core.memcpy(tile, x[row])
        await core.memcpy(out[row], tile)


async def two_buffers(core: Core, x: View, out: View) -> None:
    """Loads a row while the row before is stored."""
    if core.is_memory_core:
        return
    tiles = [core.nram.alloc(x.shape[1], x.dtype) for _ in range(2)]
    rows = list(range(core.task_id, x.shape[0], core.task_dim))
    for step, row in enumerate([*rows, -1]):
        if step:
            core.memcpy_async(out[rows[step - 1]], tiles[(step - 1) % 2])
        if row >= 0:
            core.memcpy_async(tiles[step % 2], x[row])
        await core.sync()


async def ahead(core: Core, x: View, out: View) -> None:
    """Issues everything and waits once."""
    if core.is_memory_core:
        return
    tile = core.nram.alloc(x.shape[1], x.dtype)
    for row in range(core.task_id, x.shape[0], core.task_dim):
        core.memcpy_async(tile, x[row])
        core.memcpy_async(out[row], tile)
    await core.sync()


async def add_with_barriers(core: Core, x: View, out: View) -> None:
    """Vector instructions between copies, all tasks of a cluster in step."""
    if core.is_memory_core:
        for _ in range(x.shape[0] // core.task_dim):
            await core.sync_cluster()
        return
    tile = core.nram.alloc(x.shape[1], x.dtype)
    for step in range(x.shape[0] // core.task_dim):
        row = step * core.task_dim + core.task_id
        await core.memcpy(tile, x[row])
        core.add(tile, tile, tile)
        core.relu(tile, tile)
        await core.sync_cluster()
        await core.memcpy(out[row], tile)


async def three_buffers(core: Core, x: View, out: View) -> None:
    """Loads a row and stores another one while a third is computed on."""
    if core.is_memory_core:
        return
    tiles = [core.nram.alloc(x.shape[1], x.dtype) for _ in range(3)]
    rows = list(range(core.task_id, x.shape[0], core.task_dim))
    for step in range(len(rows) + 2):
        if step < len(rows):
            core.memcpy_async(tiles[step % 3], x[rows[step]])
        if 1 <= step <= len(rows):
            tile = tiles[(step - 1) % 3]
            for _ in range(4):
                core.add(tile, tile, tile)
        if step >= 2:
            core.memcpy_async(out[rows[step - 2]], tiles[(step - 2) % 3])
        await core.sync()


async def two_loops(core: Core, x: View, out: View) -> None:
    """Copies whole rows, then half rows; the tasks in the middle of the grid copy fewer."""
    if core.is_memory_core:
        return
    tile = core.nram.alloc(x.shape[1], x.dtype)
    half = x.shape[1] // 2
    rows = range(core.task_id, x.shape[0] - 3 * (core.task_id % 2), core.task_dim)
    for row in rows[: len(rows) // 2]:
        await core.memcpy(tile, x[row])
        await core.memcpy(out[row], tile)
    for row in rows[len(rows) // 2 :]:
        await core.memcpy(tile[half:], x[row, half:])
        await core.memcpy(out[row, half:], tile[half:])


def tensor(*shape: int) -> np.ndarray[Any, Any]:
    """A tensor of this size that takes no memory."""
    return np.broadcast_to(np.zeros((), np.float32), shape)


def timed(kernel: Any, *inputs: Any, **options: Any) -> Result:
    """Run a kernel without data; its output is like its first input."""
    return mlusim.run(kernel, *inputs, mlusim.Output(inputs[0].shape, "float32"), data=False, **options)


def full_and_steady(kernel: Any, x: Any, **options: Any) -> tuple[Result, Result]:
    """A kernel timed in full and with steady-state timing, which differ in times alone."""
    full, quick = timed(kernel, x, **options), timed(kernel, x, steady=True, **options)
    same_but_for_times(full, quick)
    return full, quick


def same_but_for_times(full: Result, quick: Result) -> None:
    """Bytes and operations are exact; the time is within the bound."""
    assert dict(quick.bytes_requested) == dict(full.bytes_requested)
    assert dict(quick.bus_bytes) == dict(full.bus_bytes)
    assert dict(quick.metrics.operations) == dict(full.metrics.operations)
    assert len(quick.log) == len(full.log)
    off = abs(quick.time_ps / full.time_ps - 1)
    assert off <= MAX_ERROR
    assert abs(quick.time_ps - full.time_ps) <= quick.steady.bound_ps
    assert quick.steady.bound_ps <= MAX_ERROR * quick.time_ps
    columns = quick.log.columns()
    assert (columns["issue_ps"] <= columns["start_ps"]).all()
    assert (columns["start_ps"] <= columns["end_ps"]).all()
    assert columns["end_ps"].max() <= max(launch.end_ps for launch in quick.log.launches)
