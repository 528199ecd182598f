"""The measured matmul kernels, after their published sources: scalar loops, and the tensor pipe in several stages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlusim.units import ceil_div
from mlusim.validation.kernels import pipelined, slice_of, tiles_of

if TYPE_CHECKING:
    from mlusim.cores.core import Core
    from mlusim.memory.view import View

# Steps from the memory core's load of a tile to its store.
_STAGED_DELAY = 4


async def scalar_matmul(core: Core, a: View, b: View, out: View, ordinary: int) -> None:
    """A scalar matmul whose inner iteration has two loads from the operands and `ordinary` other instructions.

    All inner iterations of a row of the result are one counted load per operand.
    """
    count, columns = a.shape[1], b.shape[1]
    for row in range(a.shape[0]):
        await core.load_array(a[row].broadcast_to(columns, count))
        await core.load_array(b)
        core.scalar(count=columns * count * ordinary)
    core.store(out[0, 0], 0)


async def scalar_matmul_nram(core: Core, a: View, b: View, out: View, ordinary: int) -> None:
    """The scalar matmul on operands copied to NRAM, with the result copied back."""
    buffers = [core.nram.alloc(view.shape, view.dtype) for view in (a, b, out)]
    for target, source in zip(buffers, (a, b), strict=False):
        await core.memcpy(target, source)
    await scalar_matmul(core, buffers[0], buffers[1], buffers[2], ordinary)
    await core.memcpy(out, buffers[2])


async def matmul_one(core: Core, a: View, b: View, out: View) -> None:
    """One matmul on one core; all operations block."""
    left = core.nram.alloc(a.shape, a.dtype)
    right = core.wram.alloc(b.shape, b.dtype)
    result = core.nram.alloc(out.shape, out.dtype)
    await core.memcpy(left, a)
    await core.memcpy(right, b)
    core.matmul(result, left, right)
    await core.sync()
    await core.memcpy(out, result)


async def matmul_blocks(core: Core, a: View, b: View, out: View, rows: int) -> None:
    """Blocks of rows: blocking load of A, matmul with B in WRAM, blocking store of C."""
    left = core.nram.alloc((rows, a.shape[1]), a.dtype)
    right = core.wram.alloc(b.shape, b.dtype)
    result = core.nram.alloc((rows, out.shape[1]), out.dtype)
    await core.memcpy(right, b)
    for start, stop in tiles_of(*slice_of(core, a.shape[0], rows), rows):
        await core.memcpy(left, a[start:stop])
        core.matmul(result, left, right)
        await core.sync()
        await core.memcpy(out[start:stop], result)


async def matmul_pipelined(core: Core, a: View, b: View, out: View, rows: int) -> None:
    """Blocks of rows in three stages, double buffered, with one sync per stage."""
    left = [core.nram.alloc((rows, a.shape[1]), a.dtype) for _ in range(2)]
    right = core.wram.alloc(b.shape, b.dtype)
    result = [core.nram.alloc((rows, out.shape[1]), out.dtype) for _ in range(2)]
    await core.memcpy(right, b)

    def load(k: int, start: int, stop: int) -> None:
        core.memcpy_async(left[k], a[start:stop])

    def compute(k: int, *_: int) -> None:
        core.matmul(result[k], left[k], right)

    def store(k: int, start: int, stop: int) -> None:
        core.memcpy_async(out[start:stop], result[k])

    await pipelined(core, tiles_of(*slice_of(core, a.shape[0], rows), rows), load, compute, store)


async def matmul_staged(core: Core, a: View, b: View, out: View, rows: int) -> None:
    """Blocks of rows in five stages through SRAM: the memory core loads and stores for its cluster's cores."""
    cores = core.board.cores_per_cluster
    sram_in = [core.sram.alloc((cores * rows, a.shape[1]), a.dtype, name=f"in {k}") for k in range(2)]
    sram_out = [core.sram.alloc((cores * rows, out.shape[1]), out.dtype, name=f"out {k}") for k in range(2)]
    jobs = core.task_dim // cores
    share = ceil_div(a.shape[0], jobs)
    job = core.task_id // cores
    steps = ceil_div(share, cores * rows)
    base = job * share
    if core.is_memory_core:
        for step in range(steps + _STAGED_DELAY):
            if step >= _STAGED_DELAY:
                at = base + (step - _STAGED_DELAY) * cores * rows
                core.memcpy_async(out[at : at + cores * rows], sram_out[step % 2])
            if step < steps:
                at = base + step * cores * rows
                core.memcpy_async(sram_in[step % 2], a[at : at + cores * rows])
            await core.sync()
            await core.sync_cluster()
        return
    me = slice(core.core_id * rows, (core.core_id + 1) * rows)
    left = [core.nram.alloc((rows, a.shape[1]), a.dtype) for _ in range(2)]
    right = core.wram.alloc(b.shape, b.dtype)
    result = [core.nram.alloc((rows, out.shape[1]), out.dtype) for _ in range(2)]
    await core.memcpy(right, b)
    for step in range(steps + _STAGED_DELAY):
        loaded, computed, stored = step - 1, step - 2, step - 3
        if 0 <= loaded < steps:
            core.memcpy_async(left[loaded % 2], sram_in[loaded % 2][me])
        if 0 <= computed < steps:
            core.matmul(result[computed % 2], left[computed % 2], right)
        if 0 <= stored < steps:
            core.memcpy_async(sram_out[stored % 2][me], result[stored % 2])
        await core.sync()
        await core.sync_cluster()
