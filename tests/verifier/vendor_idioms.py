"""Kernels that are right, written as kernels of the vendor are: none of them may be blamed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import mlusim
from mlusim import InOut, Output

RNG = np.random.default_rng(8)
X = RNG.integers(1, 50, (24, 64)).astype(np.float32)
Y = RNG.integers(1, 50, (24, 64)).astype(np.float32)
OUT = Output.like(X)
TOTAL = Output((64,), "float32")


@dataclass(frozen=True, kw_only=True)
class Idiom:
    """A sound kernel and how it is verified."""

    kernel: Callable[..., Any]
    arguments: tuple[Any, ...]
    reference: Any
    options: dict[str, Any] = field(default_factory=dict)


IDIOMS: dict[str, Idiom] = {}
HOST_IDIOMS: dict[str, Callable[[], Any]] = {}


def idiom(*arguments: Any, reference: Any, **options: Any) -> Callable[[Any], Any]:
    """Register a kernel; by default on one cluster."""
    options = {"dim": (4, 1, 1)} | options

    def register(kernel: Any) -> Any:
        name = kernel.__name__.replace("_", " ")
        IDIOMS[name] = Idiom(kernel=kernel, arguments=arguments, reference=reference, options=options)
        return kernel

    return register


def host_idiom(program: Any) -> Any:
    """Register a host program that gives the report."""
    HOST_IDIOMS[program.__name__.replace("_", " ")] = program
    return program


# ---- pipelines within a core


@idiom(X, OUT, reference=2 * X)
async def blocking_copies_without_a_sync(core, x, out):
    if core.is_memory_core:
        return
    tile = core.nram.alloc(64, x.dtype, "tile")
    for row in range(core.task_id, 24, core.task_dim):
        await core.memcpy(tile, x[row])
        core.add(tile, tile, tile)
        await core.memcpy(out[row], tile)


@idiom(X, OUT, reference=2 * X)
async def three_stages_with_ping_pong(core, x, out):
    if core.is_memory_core:
        return
    tile = core.nram.alloc((2, 64), x.dtype, "tile")
    done = core.nram.alloc((2, 64), x.dtype, "done")
    rows = range(core.task_id, 24, core.task_dim)
    core.memcpy_async(tile[0], x[rows[0]])
    await core.sync()
    for step in range(len(rows)):
        if step:
            core.memcpy_async(out[rows[step - 1]], done[(step - 1) % 2])
        if step + 1 < len(rows):
            core.memcpy_async(tile[(step + 1) % 2], x[rows[step + 1]])
        core.add(done[step % 2], tile[step % 2], tile[step % 2])
        await core.sync()
    await core.memcpy(out[rows[-1]], done[(len(rows) - 1) % 2])


@idiom(X, Y, OUT, reference=X + Y)
async def triple_buffer_with_partial_syncs(core, x, y, out):
    if core.is_memory_core:
        return
    left, right = (core.nram.alloc((3, 64), x.dtype, name) for name in ("left", "right"))
    rows = list(range(core.task_id, 24, core.task_dim))
    for step, row in enumerate(rows):
        slot = step % 3
        core.memcpy_async(left[slot], x[row])
        core.memcpy_async(right[slot], y[row])
        await core.sync_io()
        core.add(left[slot], left[slot], right[slot])
        await core.sync_compute()
        # The next loads of this slot follow on the same pipe.
        core.memcpy_async(out[row], left[slot])
    await core.sync_io()


@idiom(X, OUT, reference=X)
async def loads_and_stores_in_order_on_one_pipe(core, x, out):
    if core.is_memory_core:
        return
    tile = core.nram.alloc(64, x.dtype, "tile")
    for row in range(core.task_id, 24, core.task_dim):
        core.memcpy_async(tile, x[row])
        core.memcpy_async(out[row], tile)


@idiom(X, OUT, reference=2 * X)
async def sync_of_chosen_pipes(core, x, out):
    if core.is_memory_core:
        return
    tile, copy = (core.nram.alloc(64, x.dtype, name) for name in ("tile", "copy"))
    for row in range(core.task_id, 24, core.task_dim):
        core.memcpy_async(tile, x[row])
        await core.sync_io_move_compute(move=False, compute=False)
        core.move(copy, tile)
        await core.sync_io_move_compute(io=False, compute=False)
        core.add(copy, copy, tile)
        await core.sync_io_move_compute(io=False, move=False)
        core.memcpy_async(out[row], copy)
        await core.sync_io()


# ---- SRAM and the memory core


@idiom(X, OUT, reference=2 * X)
async def five_stages_through_sram(core, x, out):
    fresh, done = (core.sram.alloc((2, 4, 64), x.dtype, name) for name in ("fresh", "done"))
    if not core.is_memory_core:
        tile, result = (core.nram.alloc((2, 64), x.dtype, name) for name in ("tile", "result"))
    steps = 6
    for step in range(steps + 4):
        if core.is_memory_core:
            if step < steps:
                core.memcpy_async(fresh[step % 2], x[4 * step : 4 * step + 4])
            if step >= 4:
                core.memcpy_async(out[4 * (step - 4) : 4 * (step - 3)], done[step % 2])
        else:
            if 1 <= step <= steps:
                core.memcpy_async(tile[(step - 1) % 2], fresh[(step - 1) % 2, core.core_id])
            if 2 <= step <= steps + 1:
                core.add(result[step % 2], tile[step % 2], tile[step % 2])
            if 3 <= step <= steps + 2:
                core.memcpy_async(done[(step - 3) % 2, core.core_id], result[(step - 3) % 2])
        await core.sync_cluster()


@idiom(X, OUT, reference=X + X[0])
async def broadcast_through_sram(core, x, out):
    first = core.sram.alloc(64, x.dtype, "first")
    if core.is_memory_core:
        await core.memcpy(first, x[0])
    await core.sync_cluster()
    if core.is_memory_core:
        return
    held, tile = (core.nram.alloc(64, x.dtype, name) for name in ("held", "tile"))
    await core.memcpy(held, first)
    for row in range(core.task_id, 24, core.task_dim):
        await core.memcpy(tile, x[row])
        core.add(tile, tile, held)
        await core.memcpy(out[row], tile)


@idiom(X, OUT, reference=X + X[0], dim=(4, 2, 1))
async def broadcast_that_every_core_executes(core, x, out):
    first = core.sram.alloc(64, x.dtype, "first")
    if core.is_memory_core:
        await core.sync_cluster()
        return
    await core.memcpy(first, x[0])
    await core.sync_cluster()
    held, tile = (core.nram.alloc(64, x.dtype, name) for name in ("held", "tile"))
    await core.memcpy(held, first)
    for row in range(core.task_id, 24, core.task_dim):
        await core.memcpy(tile, x[row])
        core.add(tile, tile, held)
        await core.memcpy(out[row], tile)


@idiom(X, OUT, reference=2 * X)
async def shared_load_then_own_slice_without_a_barrier(core, x, out):
    """All cores execute the copy to SRAM: each has waited for it."""
    if core.is_memory_core:
        return
    box = core.sram.alloc((24, 64), x.dtype, "box")
    await core.memcpy(box, x)
    tile = core.nram.alloc((6, 64), x.dtype, "tile")
    rows = slice(6 * core.core_id, 6 * core.core_id + 6)
    await core.memcpy(tile, box[rows])
    core.add(tile, tile, tile)
    await core.memcpy(out[rows], tile)


@idiom(X, TOTAL, reference=X.sum(axis=0), dim=(8, 1, 1), kind="UNION2")
async def tree_of_sums_over_two_clusters(core, x, out):
    parts = core.sram.alloc((4, 64), x.dtype, "parts")
    other = core.sram.alloc((2, 64), x.dtype, "other", cluster=0)
    if not core.is_memory_core:
        tile, total = core.nram.alloc((3, 64), x.dtype, "tile"), core.nram.alloc(64, x.dtype, "total")
        await core.memcpy(tile, x[3 * core.task_id : 3 * core.task_id + 3])
        core.sum_rows(total, tile)
        await core.memcpy(parts[core.core_id], total)
    await core.sync_cluster()
    if core.core_id == 0:
        four = core.nram.alloc((4, 64), x.dtype, "four")
        await core.memcpy(four, parts)
        core.sum_rows(total, four)
        if core.cluster_id == 0:
            await core.memcpy(other[0], total)
        else:
            await core.memcpy(parts[0], total)
    await core.sync_cluster()
    if core.is_memory_core and core.cluster_id == 1:
        await core.memcpy(other[1], parts[0])
    await core.sync_all()
    if core.task_id == 0 and not core.is_memory_core:
        await core.memcpy(tile[0:2], other)
        core.sum_rows(total, tile[0:2])
        await core.memcpy(out, total)


# ---- lengths, paddings, layouts


@idiom(X[:, :50], Output((24, 50)), reference=np.sqrt(X[:, :50]))
async def rounded_up_length(core, x, out):
    if core.is_memory_core:
        return
    tile = core.nram.alloc(64, x.dtype, "tile")
    for row in range(core.task_id, 24, core.task_dim):
        await core.memcpy(tile[0:50], x[row])
        core.sqrt(tile, tile)
        await core.memcpy(out[row], tile[0:50])


@idiom(X[:, :50], Output((24, 50)), reference=2 * X[:, :50], device="mlu270")
async def rounded_up_length_on_an_old_board(core, x, out):
    if core.is_memory_core:
        return
    tile = core.nram.alloc(64, x.dtype, "tile")
    for row in range(core.task_id, 24, core.task_dim):
        await core.memcpy(tile[0:50], x[row])
        core.add(tile, tile, tile)
        await core.memcpy(out[row], tile[0:50])


@idiom(X[:, :50], Output((24,)), reference=X[:, :50].sum(axis=1))
async def sum_over_a_cleared_padding(core, x, out):
    if core.is_memory_core:
        return
    tile, result = core.nram.alloc(64, x.dtype, "tile"), core.nram.alloc(32, x.dtype, "result")
    core.write_zero(tile)
    await core.sync_compute()
    for row in range(core.task_id, 24, core.task_dim):
        await core.memcpy(tile[0:50], x[row])
        core.sumpool(result[0:1].reshape(1, 1, 1), tile.reshape(64, 1, 1), 64, 1)
        await core.memcpy(out[row : row + 1], result[0:1])


@idiom(X[:23], Output((64, 23)), reference=X[:23].T)
async def transpose_of_a_padded_square(core, x, out):
    if core.is_memory_core or core.core_id:
        return
    tile, turned = core.nram.alloc((32, 64), x.dtype, "tile"), core.nram.alloc((64, 32), x.dtype, "turned")
    await core.memcpy(tile[0:23], x)
    core.transpose(turned, tile)
    await core.memcpy(out, turned[0:64, 0:23])


@idiom(X, Output((24, 64), pitch=80), reference=2 * X)
async def output_with_a_pitch(core, x, out):
    if core.is_memory_core:
        return
    tile = core.nram.alloc((6, 64), x.dtype, "tile")
    rows = slice(6 * core.core_id, 6 * core.core_id + 6)
    await core.memcpy(tile, x[rows])
    core.add(tile, tile, tile)
    await core.memcpy(out[rows], tile)


@idiom(X, Output((24, 128)), reference=np.repeat(X, 2, axis=1))
async def interleaved_strided_stores(core, x, out):
    if core.is_memory_core:
        return
    tile = core.nram.alloc((6, 64), x.dtype, "tile")
    first = 6 * core.core_id
    await core.memcpy(tile, x[first : first + 6])
    for half in range(2):
        await core.memcpy(
            out[first : first + 6, half:128:2] if not half else out[first : first + 6, 1:127:2],
            tile[0:6, 0:64] if not half else tile[0:6, 0:63],
        )
    await core.memcpy(out[first : first + 6, 127:128], tile[0:6, 63:64])


@idiom(X, OUT, reference=X)
async def columns_of_one_tensor(core, x, out):
    if core.is_memory_core:
        return
    tile = core.nram.alloc((24, 16), x.dtype, "tile")
    columns = slice(16 * core.core_id, 16 * core.core_id + 16)
    await core.memcpy(tile, x[0:24, columns])
    await core.memcpy(out[0:24, columns], tile)


@idiom(X, Output((4, 24, 64)), reference=np.broadcast_to(X, (4, 24, 64)))
async def source_stride_of_zero(core, x, out):
    if core.is_memory_core:
        return
    tile = core.nram.alloc((6, 64), x.dtype, "tile")
    rows = slice(6 * core.core_id, 6 * core.core_id + 6)
    await core.memcpy(tile, x[rows])
    await core.memcpy(out[0:4, rows], tile.reshape(1, 6, 64).broadcast_to(4, 6, 64))


@idiom(X, OUT, reference=X)
async def byte_form_with_segments(core, x, out):
    if core.is_memory_core:
        return
    tile = core.nram.alloc((6, 64), x.dtype, "tile")
    source, target = x.pointer + 6 * 64 * core.core_id, out.pointer + 6 * 64 * core.core_id
    await core.memcpy(tile.pointer, source, 128, mlusim.Direction.GDRAM2NRAM, 256, 256, 5)
    await core.memcpy(tile.pointer + 32, source + 32, 128, mlusim.Direction.GDRAM2NRAM, 256, 256, 5)
    await core.memcpy(target, tile.pointer, 6 * 256, mlusim.Direction.NRAM2GDRAM)


@idiom(X, OUT, reference=np.concatenate([X[:, 32:], X[:, :32]], axis=1))
async def halves_of_one_buffer_exchanged(core, x, out):
    if core.is_memory_core:
        return
    tile = core.nram.alloc((2, 96), x.dtype, "tile")
    for row in range(core.task_id, 24, core.task_dim):
        await core.memcpy(tile[0, 0:64], x[row])
        await core.memcpy(tile[0, 64:96], tile[0, 0:32])
        await core.memcpy(out[row], tile[0, 32:96])


@idiom(X, OUT, reference=X)
async def every_other_element_to_the_gaps(core, x, out):
    """The two sides lie within each other and share no byte."""
    if core.is_memory_core or core.core_id:
        return
    tile = core.nram.alloc((24, 128), x.dtype, "tile")
    await core.memcpy(tile[0:24, 0:127:2], x)
    await core.memcpy(tile[0:24, 1:128:2], tile[0:24, 0:127:2])
    await core.memcpy(out, tile[0:24, 1:128:2])


# ---- in place, accumulators, scratch


@idiom(InOut(X), reference=2 * X)
async def in_place(core, x):
    if core.is_memory_core:
        return
    tile = core.nram.alloc(64, x.dtype, "tile")
    for row in range(core.task_id, 24, core.task_dim):
        await core.memcpy(tile, x[row])
        core.add(tile, tile, tile)
        await core.memcpy(x[row], tile)


@idiom(InOut(X), reference=X[::-1])
async def rows_swapped_in_place_behind_a_barrier(core, x):
    if not core.is_memory_core:
        tile = core.nram.alloc((6, 64), x.dtype, "tile")
        first = 6 * core.core_id
        await core.memcpy(tile, x[first : first + 6])
    await core.sync_cluster()
    if not core.is_memory_core:
        for row in range(6):
            await core.memcpy(x[23 - first - row], tile[row])


@idiom(X, InOut(np.zeros(64, np.float32)), reference=X.sum(axis=0), dim=(4, 2, 1))
async def sum_by_atomics_on_a_cleared_output(core, x, total):
    if core.is_memory_core:
        return
    tile = core.nram.alloc(64, x.dtype, "tile")
    for row in range(core.task_id, 24, core.task_dim):
        await core.memcpy(tile, x[row])
        await core.atomic_reduce_add(total, tile)


@idiom(X, InOut(np.zeros(64, np.float32)), reference=X.sum(axis=0))
async def sum_under_a_lock(core, x, total):
    if core.is_memory_core:
        return
    tile, held = (core.nram.alloc(64, x.dtype, name) for name in ("tile", "held"))
    for row in range(core.task_id, 24, core.task_dim):
        await core.memcpy(tile, x[row])
        await core.lock(0)
        await core.memcpy(held, total)
        core.add(held, held, tile)
        await core.memcpy(total, held)
        await core.unlock(0)


@idiom(X[:, :50], Output((24, 50)), reference=2 * X[:, :50])
async def copies_within_nram_in_the_compute_stream(core, x, out):
    if core.is_memory_core:
        return
    tile, copy = (core.nram.alloc(64, x.dtype, name) for name in ("tile", "copy"))
    for row in range(core.task_id, 24, core.task_dim):
        await core.memcpy(tile[0:50], x[row])
        core.memcpy_async(copy, tile)
        core.add(copy, copy, tile)
        await core.memcpy(out[row], copy[0:50])


@idiom(X, TOTAL, reference=X.sum(axis=0))
async def sum_by_atomics_after_a_clear(core, x, total):
    if core.core_id == 0:
        await core.gdramset(total, 0.0)
    await core.sync_cluster()
    if core.is_memory_core:
        return
    tile = core.nram.alloc(64, x.dtype, "tile")
    for row in range(core.task_id, 24, core.task_dim):
        await core.memcpy(tile, x[row])
        await core.atomic_reduce_add(total, tile)


@idiom(X, TOTAL, reference=X.max(axis=0))
async def maximum_by_atomics_after_a_store(core, x, total):
    if not core.is_memory_core:
        tile = core.nram.alloc(64, x.dtype, "tile")
    if core.core_id == 0:
        core.write_value(tile, -1e30)
        await core.memcpy(total, tile)
    await core.sync_cluster()
    if core.is_memory_core:
        return
    for row in range(core.task_id, 24, core.task_dim):
        await core.memcpy(tile, x[row])
        await core.atomic_reduce_max(total, tile)


@idiom(X, TOTAL, reference=X.max(axis=0))
async def exchange_into_fresh_memory(core, x, total):
    """`exch` reads nothing that it keeps."""
    if core.is_memory_core or core.core_id:
        return
    tile = core.nram.alloc((24, 64), x.dtype, "tile")
    await core.memcpy(tile, x)
    held = core.nram.alloc(64, x.dtype, "held")
    core.max_rows(held, tile)
    await core.sync()
    await core.atomic_reduce_exch(total, held)


@idiom(X, InOut(np.zeros(1, np.int32)), OUT, reference={"out": 2 * X, "counter": np.array([28], np.int32)})
async def rows_taken_from_an_atomic_counter(core, x, counter, out):
    """A persistent kernel: each task takes the next row until there are none."""
    if core.is_memory_core:
        return
    old, tile = core.nram.alloc(1, "int32", "old"), core.nram.alloc(64, x.dtype, "tile")
    while True:
        await core.atomic_add(old, counter, 1)
        row = await core.load(old[0])
        if row >= 24:
            return
        await core.memcpy(tile, x[row])
        core.add(tile, tile, tile)
        await core.memcpy(out[row], tile)


@idiom(X, OUT, reference=X.sum(axis=0) + np.zeros_like(X))
async def output_as_scratch_of_one_task(core, x, out):
    if core.is_memory_core or core.core_id:
        return
    tile, total = core.nram.alloc((24, 64), x.dtype, "tile"), core.nram.alloc(64, x.dtype, "total")
    await core.memcpy(tile, x)
    core.sum_rows(total, tile)
    await core.memcpy(out, total.reshape(1, 64).broadcast_to(24, 64))


@idiom(X, OUT, reference=X + 1)
async def spilled_to_ldram(core, x, out):
    if core.is_memory_core:
        return
    spill = core.ldram.alloc((6, 64), x.dtype, "spill")
    tile = core.nram.alloc(64, x.dtype, "tile")
    first = 6 * core.core_id
    for row in range(6):
        await core.memcpy(tile, x[first + row])
        await core.memcpy(spill[row], tile)
    for row in range(6):
        await core.memcpy(tile, spill[row])
        core.add(tile, tile, 1.0)
        await core.memcpy(out[first + row], tile)


@idiom(X, np.array([3, 0, 5, 7, 11, 2, 1, 9], np.int32), Output((8, 64)), reference=X[[3, 0, 5, 7, 11, 2, 1, 9]])
async def indices_loaded_by_scalar_code(core, x, index, out):
    if core.is_memory_core:
        return
    rows, tile = core.nram.alloc(2, "int32", "rows"), core.nram.alloc(64, x.dtype, "tile")
    await core.memcpy(rows, index[2 * core.core_id : 2 * core.core_id + 2])
    for turn in range(2):
        row = await core.load(rows[turn])
        await core.memcpy(tile, x[row])
        await core.memcpy(out[2 * core.core_id + turn], tile)


@idiom(X, Output((24,)), reference=X[:, 0])
async def scalar_stores_to_distinct_elements(core, x, out):
    if core.is_memory_core:
        return
    for row in range(core.task_id, 24, core.task_dim):
        value = await core.load(x[row, 0])
        core.store(out[row], value)


@idiom(X, OUT, reference=X)
async def scopes_with_syncs(core, x, out):
    if core.is_memory_core:
        return
    for row in range(core.task_id, 24, core.task_dim):
        with core.nram.scope():
            tile = core.nram.alloc(64, x.dtype, "tile")
            core.memcpy_async(tile, x[row])
            await core.sync_io()
            core.memcpy_async(out[row], tile)
            await core.sync_io()


@idiom(X, OUT, reference=X, dim=(32, 1, 1), kind="BLOCK")
async def more_tasks_than_rows(core, x, out):
    if core.task_id >= 24:
        return
    tile = core.nram.alloc(64, x.dtype, "tile")
    await core.memcpy(tile, x[core.task_id])
    await core.memcpy(out[core.task_id], tile)


@idiom(X, OUT, reference=X)
async def write_value_then_the_part_that_counts(core, x, out):
    """A cleared tile of which a load replaces what is there, on every path."""
    if core.is_memory_core:
        return
    tile = core.nram.alloc((8, 64), x.dtype, "tile")
    for first in range(8 * core.core_id, 24, 32):
        core.write_zero(tile)
        await core.sync_compute()
        await core.memcpy(tile, x[first : first + 8])
        await core.memcpy(out[first : first + 8], tile)


@idiom(X, OUT, reference=np.where(X > 25, X, 0).astype(np.float32))
async def mask_and_select(core, x, out):
    if core.is_memory_core:
        return
    tile, mask = (core.nram.alloc((6, 64), x.dtype, name) for name in ("tile", "mask"))
    rows = slice(6 * core.core_id, 6 * core.core_id + 6)
    await core.memcpy(tile, x[rows])
    core.gt(mask, tile, 25.0)
    core.mul(tile, tile, mask)
    await core.memcpy(out[rows], tile)


# ---- launches


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
