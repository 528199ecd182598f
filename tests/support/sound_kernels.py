"""Small correct kernels with arguments and reference, which the matrix of seeded bugs breaks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mlusim.hardware import board
from mlusim.host.arguments import Output
from mlusim.kernels.tin_shift import (
    kernel_of,
    tin_shift_pingpong,
    tin_shift_row_chunks,
    tin_shift_segments,
    tin_shift_tight_segments,
)
from mlusim.planning.tin_shift import plan_tin_shift

RNG = np.random.default_rng(1)
BOARD = board("mlu370-x4")


async def copy(core, x, out):
    if core.is_memory_core:
        return
    buffer = core.nram.alloc((4, x.shape[1]), x.dtype)
    for row in range(core.task_id * 4, x.shape[0], core.task_dim * 4):
        last = min(row + 4, x.shape[0])
        core.memcpy_async(buffer[0 : last - row], x[row:last])
        await core.sync_io()
        core.memcpy_async(out[row:last], buffer[0 : last - row])
        await core.sync_io()


async def double_buffered_add(core, x, y, out):
    if core.is_memory_core:
        return
    size = x.shape[1]
    left = core.nram.alloc((3, size), x.dtype, "left")
    right = core.nram.alloc((3, size), x.dtype, "right")
    tiles = range(core.task_id, x.shape[0], core.task_dim)
    for step in range(len(tiles) + 2):
        if step >= 2:
            core.memcpy_async(out[tiles[step - 2]], left[(step - 2) % 3])
        if step < len(tiles):
            core.memcpy_async(left[step % 3], x[tiles[step]])
            core.memcpy_async(right[step % 3], y[tiles[step]])
        if 1 <= step <= len(tiles):
            slot = (step - 1) % 3
            core.add(left[slot], left[slot], right[slot])
        await core.sync()


async def gather_rows(core, x, index, out):
    if core.is_memory_core:
        return
    rows = core.nram.alloc((4, x.shape[1]), x.dtype)
    for first in range(core.task_id * 4, index.shape[0], core.task_dim * 4):
        count = min(4, index.shape[0] - first)
        chosen = await core.load_array(index[first : first + count])
        await core.memcpy_rows(rows[0:count], x, src_rows=chosen)
        await core.memcpy(out[first : first + count], rows[0:count])


async def cluster_sum(core, x, out):
    size = x.shape[1]
    partial = core.sram.alloc((4, size), x.dtype, "partial")
    if not core.is_memory_core:
        total = core.nram.alloc(size, x.dtype, "total")
        held = core.nram.alloc(size, x.dtype, "held")
        core.write_zero(total)
        for row in range(core.task_id, x.shape[0], core.task_dim):
            core.memcpy_async(held, x[row])
            await core.sync_io()
            core.add(total, total, held)
            await core.sync_compute()
        await core.memcpy(partial[core.core_id], total)
    await core.sync_cluster()
    if core.core_id == 0:
        gathered = core.nram.alloc((4, size), x.dtype, "gathered")
        await core.memcpy(gathered, partial)
        core.sum_rows(total, gathered)
        await core.memcpy(out, total)


async def staged_add(core, x, y, out):
    size = x.shape[1]
    part = size // 4
    held = core.sram.alloc((4, size), x.dtype, "held")
    done = core.sram.alloc((2, size), x.dtype, "done")
    if not core.is_memory_core:
        left = core.nram.alloc(part, x.dtype, "left")
        right = core.nram.alloc(part, x.dtype, "right")
    for step in range(x.shape[0] + 2):
        if core.is_memory_core:
            if step < x.shape[0]:
                core.memcpy_async(held[step % 2], x[step])
                core.memcpy_async(held[step % 2 + 2], y[step])
            if step >= 2:
                core.memcpy_async(out[step - 2], done[step % 2])
        elif 1 <= step <= x.shape[0]:
            slot = (step - 1) % 2
            begin = core.core_id * part
            await core.memcpy(left, held[slot, begin : begin + part])
            await core.memcpy(right, held[slot + 2, begin : begin + part])
            core.add(left, left, right)
            await core.sync_compute()
            core.memcpy_async(done[slot, begin : begin + part], left)
        await core.sync_cluster()


@dataclass(frozen=True, kw_only=True)
class Case:
    """A kernel and how it is verified; `options` go to `mlusim.verify`."""

    kernel: Callable[..., Any]
    arguments: tuple[Any, ...]
    reference: np.ndarray[Any, Any]
    options: dict[str, Any] = field(default_factory=dict)


def floats(*shape: int) -> np.ndarray[Any, Any]:
    """Small whole numbers: sums of them are exact in any order."""
    return RNG.integers(1, 100, shape).astype(np.float32)


def shifted(x: np.ndarray[Any, Any], shifts: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    out = np.zeros_like(x)
    batch, time, channels, _ = x.shape
    for n, t, c in np.ndindex(batch, time, channels):
        source = t - int(shifts[n, c // (channels // shifts.shape[1])])
        if 0 <= source < time:
            out[n, t, c] = x[n, source, c]
    return out


def tin_shift(strategy: str, nram_bytes: int, kernel: Callable[..., Any], tier: int, clusters: int = 1) -> Case:
    """tin_shift on boards whose NRAM is so small that a unit, a row, or neither fits."""
    on = BOARD.replace(nram_bytes=nram_bytes, nram_reserved_bytes=0, clusters=clusters)
    x, shifts = floats(2, 5, 4, 96), np.array([[1, -2], [0, 7]], np.int32)
    plan = plan_tin_shift(on, x.shape, 2, x.dtype, strategy)
    assert plan.tier == tier
    assert kernel_of(plan) is kernel
    return Case(
        kernel=kernel,
        arguments=(x, shifts, Output.like(x), plan, 1),
        reference=shifted(x, shifts),
        options={"plan": plan, "device": on},
    )


def cases() -> dict[str, Case]:
    x, y = floats(26, 64), floats(26, 64)
    index = RNG.integers(0, 26, 18).astype(np.int32)
    one_cluster = {"dim": (4, 1, 1)}
    return {
        "copy": Case(kernel=copy, arguments=(x, Output.like(x)), reference=x, options=one_cluster),
        "add": Case(kernel=double_buffered_add, arguments=(x, y, Output.like(x)), reference=x + y, options=one_cluster),
        "gather": Case(
            kernel=gather_rows,
            arguments=(x, index, Output((18, 64), x.dtype)),
            reference=x[index],
            options=one_cluster,
        ),
        "sum": Case(
            kernel=cluster_sum, arguments=(x, Output((64,), x.dtype)), reference=x.sum(axis=0), options=one_cluster
        ),
        "staged add": Case(kernel=staged_add, arguments=(x, y, Output.like(x)), reference=x + y, options=one_cluster),
        "tin_shift tier 1": tin_shift("documented", 8192, tin_shift_segments, 1),
        "tin_shift tier 2": tin_shift("documented", 1024, tin_shift_segments, 2),
        "tin_shift tier 3": tin_shift("documented", 256, tin_shift_row_chunks, 3),
        "tin_shift tight": tin_shift("tight", 1024, tin_shift_tight_segments, 2),
        "tin_shift pingpong": tin_shift("pingpong", 2048, tin_shift_pingpong, 2),
    }
