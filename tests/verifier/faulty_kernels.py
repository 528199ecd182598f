"""Kernels with one fault each, as their authors wrote them, and the kinds of findings of which one must name it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import mlusim
from mlusim import InOut, Output

RNG = np.random.default_rng(7)
X = RNG.integers(1, 50, (16, 64)).astype(np.float32)
Y = RNG.integers(1, 50, (16, 64)).astype(np.float32)
OUT = Output.like(X)


@dataclass(frozen=True, kw_only=True)
class Fault:
    """A faulty kernel: how it is verified, and which kinds name its fault."""

    kernel: Callable[..., Any]
    kinds: frozenset[str]
    arguments: tuple[Any, ...]
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class HostFault:
    """A faulty host program: gives the report."""

    program: Callable[[], Any]
    kinds: frozenset[str]


FAULTS: dict[str, Fault] = {}
HOST_FAULTS: dict[str, HostFault] = {}


def fault(*kinds: str, arguments: tuple[Any, ...] = (X, OUT), **options: Any) -> Callable[[Any], Any]:
    """Register a kernel; by default of one input and one output on one cluster."""
    options = {"dim": (4, 1, 1)} | options

    def register(kernel: Any) -> Any:
        name = kernel.__name__.replace("_", " ")
        FAULTS[name] = Fault(kernel=kernel, kinds=frozenset(kinds), arguments=arguments, options=options)
        return kernel

    return register


def host_fault(*kinds: str) -> Callable[[Any], Any]:
    """Register a host program."""

    def register(program: Any) -> Any:
        HOST_FAULTS[program.__name__.replace("_", " ")] = HostFault(program=program, kinds=frozenset(kinds))
        return program

    return register


# ---- barriers and SRAM


@fault("task-race")
async def barrier_of_cores_where_the_memory_core_loads(core, x, out):
    held = core.sram.alloc(x.shape, x.dtype, "held")
    if core.is_memory_core:
        await core.memcpy(held, x)
        return
    await core.sync_all_ipu()
    tile = core.nram.alloc((4, 64), x.dtype, "tile")
    rows = slice(core.core_id * 4, core.core_id * 4 + 4)
    await core.memcpy(tile, held[rows])
    await core.memcpy(out[rows], tile)


@fault("hang")
async def barrier_in_one_branch(core, x, out):
    if core.is_memory_core:
        await core.sync_cluster()
        return
    tile = core.nram.alloc((4, 64), x.dtype, "tile")
    rows = slice(core.core_id * 4, core.core_id * 4 + 4)
    await core.memcpy(tile, x[rows])
    if core.core_id != 3:
        await core.sync_cluster()
    await core.memcpy(out[rows], tile)


@fault("hang")
async def early_return_of_an_idle_core(core, x, out):
    if core.core_id == 3:
        return
    held = core.sram.alloc((3, 64), x.dtype, "held")
    if not core.is_memory_core:
        tile = core.nram.alloc(64, x.dtype, "tile")
        await core.memcpy(tile, x[core.core_id])
        await core.memcpy(held[core.core_id], tile)
    await core.sync_cluster()
    if core.is_memory_core:
        await core.memcpy(out[0:3], held)


@fault("task-race", dim=(8, 1, 1), kind="UNION2")
async def cluster_barrier_for_two_clusters(core, x, out):
    if not core.is_memory_core:
        tile = core.nram.alloc(64, x.dtype, "tile")
        await core.memcpy(tile, x[core.task_id])
        await core.memcpy(out[core.task_id], tile)
    await core.sync_cluster()
    if not core.is_memory_core:
        await core.memcpy(tile, out[(core.task_id + 4) % 8])
        await core.memcpy(out[core.task_id + 8], tile)


@fault("task-race")
async def neighbours_read_sram_without_a_barrier(core, x, out):
    if core.is_memory_core:
        return
    box = core.sram.alloc((4, 64), x.dtype, "box")
    tile = core.nram.alloc(64, x.dtype, "tile")
    await core.memcpy(tile, x[core.core_id])
    await core.memcpy(box[core.core_id], tile)
    await core.memcpy(tile, box[(core.core_id + 1) % 4])
    await core.memcpy(out[core.core_id], tile)


@fault("task-race")
async def sram_refilled_before_the_last_reader(core, x, out):
    box = core.sram.alloc((4, 64), x.dtype, "box")
    tile = None if core.is_memory_core else core.nram.alloc(64, x.dtype, "tile")
    for step in range(4):
        if core.is_memory_core:
            await core.memcpy(box, x[4 * step : 4 * step + 4])
        await core.sync_cluster()
        if not core.is_memory_core:
            await core.memcpy(tile, box[core.core_id])
            await core.memcpy(out[4 * step + core.core_id], tile)


@fault("uninitialised")
async def memory_core_prefetches_into_the_same_half(core, x, out):
    box = core.sram.alloc((2, 4, 64), x.dtype, "box")
    tile = None if core.is_memory_core else core.nram.alloc(64, x.dtype, "tile")
    for step in range(5):
        if core.is_memory_core:
            if step < 4:
                # step % 2 is meant.
                core.memcpy_async(box[0], x[4 * step : 4 * step + 4])
        elif step:
            await core.memcpy(tile, box[(step - 1) % 2, core.core_id])
            await core.memcpy(out[4 * (step - 1) + core.core_id], tile)
        await core.sync_cluster()


@fault("task-race")
async def result_read_from_gdram_in_the_same_launch(core, x, out):
    if core.is_memory_core:
        return
    tile = core.nram.alloc((4, 64), x.dtype, "tile")
    mine, next_ = core.core_id * 4, (core.core_id + 1) % 4 * 4
    await core.memcpy(tile, x[mine : mine + 4])
    await core.memcpy(out[mine : mine + 4], tile)
    await core.memcpy(tile, out[next_ : next_ + 4])
    core.mul(tile, tile, 2.0)


@fault("task-race", kind="BLOCK")
async def sync_all_of_block_tasks(core, x, out):
    tile = core.nram.alloc((4, 64), x.dtype, "tile")
    mine, next_ = core.task_id * 4, (core.task_id + 1) % 4 * 4
    await core.memcpy(tile, x[mine : mine + 4])
    await core.memcpy(out[mine : mine + 4], tile)
    await core.sync_all()
    await core.memcpy(tile, out[next_ : next_ + 4])


# ---- syncs within a core


@fault("race")
async def compute_before_the_load_is_done(core, x, out):
    if core.is_memory_core:
        return
    tile = core.nram.alloc((4, 64), x.dtype, "tile")
    rows = slice(core.core_id * 4, core.core_id * 4 + 4)
    core.memcpy_async(tile, x[rows])
    core.add(tile, tile, 1.0)
    await core.sync()
    await core.memcpy(out[rows], tile)


@fault("race")
async def sync_of_the_wrong_pipe(core, x, out):
    if core.is_memory_core:
        return
    tile = core.nram.alloc((4, 64), x.dtype, "tile")
    rows = slice(core.core_id * 4, core.core_id * 4 + 4)
    core.memcpy_async(tile, x[rows])
    await core.sync_compute()
    core.add(tile, tile, 1.0)
    await core.sync_compute()
    await core.memcpy(out[rows], tile)


@fault("race")
async def ping_pong_without_a_sync_before_reuse(core, x, out):
    if core.is_memory_core:
        return
    tile = core.nram.alloc((2, 64), x.dtype, "tile")
    for step in range(4):
        row = core.core_id * 4 + step
        core.memcpy_async(tile[step % 2], x[row])
        await core.sync_io()
        core.mul(tile[step % 2], tile[step % 2], 2.0)
        if step:
            core.memcpy_async(out[row - 1], tile[(step - 1) % 2])
    await core.sync()
    await core.memcpy(out[core.core_id * 4 + 3], tile[1])


@fault("race")
async def async_store_then_overwrite(core, x, out):
    if core.is_memory_core:
        return
    tile = core.nram.alloc(64, x.dtype, "tile")
    for row in range(core.core_id, 16, 4):
        await core.memcpy(tile, x[row])
        core.memcpy_async(out[row], tile)
        core.write_zero(tile)
    await core.sync()


@fault("race")
async def move_pipe_copy_not_waited_for(core, x, out):
    if core.is_memory_core:
        return
    tile, copy = (core.nram.alloc((4, 64), x.dtype, name) for name in ("tile", "copy"))
    rows = slice(core.core_id * 4, core.core_id * 4 + 4)
    await core.memcpy(tile, x[rows])
    core.move(copy, tile)
    core.add(copy, copy, tile)
    await core.memcpy(out[rows], copy)


@fault("race")
async def stored_before_the_copy_within_nram_is_done(core, x, out):
    if core.is_memory_core:
        return
    tile, copy = (core.nram.alloc((4, 64), x.dtype, name) for name in ("tile", "copy"))
    rows = slice(core.core_id * 4, core.core_id * 4 + 4)
    await core.memcpy(tile, x[rows])
    core.memcpy_async(copy, tile)
    await core.sync_io()
    core.memcpy_async(out[rows], copy)
    await core.sync()


@fault("task-race", arguments=(X, InOut(np.zeros(64, np.float32))))
async def two_locks_for_one_sum(core, x, total):
    if core.is_memory_core:
        return
    tile, held = (core.nram.alloc(64, x.dtype, name) for name in ("tile", "held"))
    await core.memcpy(tile, x[core.core_id])
    await core.lock(core.core_id % 2)
    await core.memcpy(held, total)
    core.add(held, held, tile)
    await core.memcpy(total, held)
    await core.unlock(core.core_id % 2)


@fault("task-race", arguments=(X, InOut(np.zeros(64, np.float32))))
async def loaded_before_the_lock(core, x, total):
    if core.is_memory_core:
        return
    tile, held = (core.nram.alloc(64, x.dtype, name) for name in ("tile", "held"))
    await core.memcpy(tile, x[core.core_id])
    await core.memcpy(held, total)
    await core.lock(0)
    core.add(held, held, tile)
    await core.memcpy(total, held)
    await core.unlock(0)


@fault("race")
async def scalar_load_before_the_copy_is_done(core, x, out):
    if core.is_memory_core or core.core_id:
        return
    tile = core.nram.alloc((16, 64), x.dtype, "tile")
    core.memcpy_async(tile, x)
    first = await core.load(tile[0, 0])
    core.add(tile, tile, float(first))
    await core.memcpy(out, tile)


@fault("race")
async def scalar_store_then_vector_copy_out(core, x, out):
    if core.is_memory_core or core.core_id:
        return
    tile = core.nram.alloc((16, 64), x.dtype, "tile")
    await core.memcpy(tile, x)
    await core.memcpy(out, tile)
    core.store(out[0, 0], 5.0)
    await core.memcpy(tile, out)


ROWS = RNG.permutation(16).astype(np.uint32)


@fault("race", arguments=(X, ROWS, OUT), device="mlu590-h8")
async def offsets_of_the_turn_before(core, x, rows, out):
    if core.is_memory_core or core.core_id:
        return
    offsets, tile = core.nram.alloc(8, rows.dtype, "offsets"), core.nram.alloc((8, 64), x.dtype, "tile")
    await core.memcpy(offsets, rows[8:16])
    for first in (0, 8):
        # The gather takes its offsets at once, whatever its pipe has to do first.
        core.memcpy_async(offsets, rows[first : first + 8])
        core.gather(tile, x, offsets)
        await core.sync()
        await core.memcpy(out[first : first + 8], tile)


@fault("race", arguments=(X, ROWS, OUT), device="mlu590-h8")
async def offsets_that_are_no_row(core, x, rows, out):
    if core.is_memory_core or core.core_id:
        return
    offsets, tile = core.nram.alloc(16, rows.dtype, "offsets"), core.nram.alloc((16, 64), x.dtype, "tile")
    core.memcpy_async(offsets, rows)
    core.gather(tile, x, offsets)
    await core.sync()
    await core.memcpy(out, tile)


@fault("race")
async def posted_store_before_the_copy_back(core, x, out):
    if core.is_memory_core or core.core_id:
        return
    tile = core.nram.alloc((16, 64), x.dtype, "tile")
    core.store_array(out[0], np.ones(64, np.float32))
    await core.memcpy(tile[0], out[0])
    await core.memcpy(tile[1:16], x[1:16])
    await core.memcpy(out[1:16], tile[1:16])


@fault("race")
async def weights_used_before_they_arrive(core, x, out):
    if core.is_memory_core or core.core_id:
        return
    rows, result = core.nram.alloc((16, 64), x.dtype, "rows"), core.nram.alloc((16, 64), x.dtype, "result")
    weights = core.wram.alloc((64, 64), x.dtype, "weights")
    filters = core.nram.alloc((64, 64), x.dtype, "filters")
    laid = core.nram.alloc((64, 64), x.dtype, "laid")
    await core.memcpy(rows, x)
    core.write_value(filters, 1.0)
    core.reshape_filter(laid, filters)
    await core.sync()
    core.memcpy_async(weights, laid)
    core.matmul(result, rows, weights)
    await core.memcpy(out, result)


@fault("release", "race")
async def released_while_a_store_is_in_flight(core, x, out):
    if core.is_memory_core:
        return
    for row in range(core.core_id, 16, 4):
        with core.nram.scope():
            tile = core.nram.alloc(64, x.dtype, "tile")
            await core.memcpy(tile, x[row])
            core.memcpy_async(out[row], tile)
    await core.sync()


@fault("release", "race")
async def released_while_a_load_is_in_flight(core, x, out):
    if core.is_memory_core:
        return
    with core.nram.scope():
        ahead = core.nram.alloc((4, 64), x.dtype, "ahead")
        core.memcpy_async(ahead, x[0:4])
    tile = core.nram.alloc((4, 64), x.dtype, "tile")
    core.write_zero(tile)
    await core.memcpy(out[core.core_id * 4 : core.core_id * 4 + 4], tile)


# ---- bounds, tiles, strides


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


@fault("wrong-value", "never-written", reference=X)
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


# ---- scalars, atomics


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


# ---- uninitialised bytes


@fault("uninitialised")
async def sum_that_begins_with_nothing(core, x, out):
    if core.is_memory_core or core.core_id:
        return
    tile, total = core.nram.alloc((16, 64), x.dtype, "tile"), core.nram.alloc((16, 64), x.dtype, "total")
    await core.memcpy(tile, x)
    core.add(total, total, tile)
    await core.memcpy(out, total)


@fault("uninitialised")
async def padding_lanes_stored(core, x, out):
    if core.is_memory_core or core.core_id:
        return
    tile = core.nram.alloc((16, 64), x.dtype, "tile")
    await core.memcpy(tile[0:15], x[0:15])
    core.add(tile, tile, 1.0)
    await core.memcpy(out, tile)


@fault("uninitialised")
async def padding_lanes_in_a_reduction(core, x, out):
    if core.is_memory_core or core.core_id:
        return
    tile, total = core.nram.alloc((16, 64), x.dtype, "tile"), core.nram.alloc(64, x.dtype, "total")
    await core.memcpy(tile[0:15], x[0:15])
    core.sum_rows(total, tile)
    for row in range(16):
        await core.memcpy(out[row], total)


@fault("uninitialised")
async def count_from_a_buffer_that_nobody_filled(core, x, out):
    if core.is_memory_core or core.core_id:
        return
    tile, lengths = core.nram.alloc((16, 64), x.dtype, "tile"), core.nram.alloc(4, "int32", "lengths")
    await core.memcpy(tile, x)
    count = await core.load(lengths[0])
    await core.memcpy(out[0 : 16 if count < 0 else 8], tile[0 : 16 if count < 0 else 8])


@fault("uninitialised")
async def sram_that_nobody_loads(core, x, out):
    if core.is_memory_core:
        return
    box = core.sram.alloc((16, 64), x.dtype, "box")
    tile = core.nram.alloc((4, 64), x.dtype, "tile")
    rows = slice(core.core_id * 4, core.core_id * 4 + 4)
    await core.memcpy(tile, box[rows])
    await core.memcpy(out[rows], tile)


@fault("uninitialised", arguments=(X, OUT))
async def output_used_as_if_it_were_cleared(core, x, out):
    if core.is_memory_core or core.core_id:
        return
    tile, held = (core.nram.alloc((16, 64), x.dtype, name) for name in ("tile", "held"))
    await core.memcpy(tile, x)
    await core.memcpy(held, out)
    core.maxequal(tile, tile, held)
    await core.memcpy(out, tile)


# ---- in place, inputs, errors


@fault("access")
async def input_changed_in_place(core, x, out):
    if core.is_memory_core or core.core_id:
        return
    tile = core.nram.alloc((16, 64), x.dtype, "tile")
    await core.memcpy(tile, x)
    await core.memcpy(x, tile)
    await core.memcpy(out, tile)


@fault("task-race", arguments=(InOut(X),))
async def shift_in_place_by_rows(core, x):
    if core.is_memory_core:
        return
    tile = core.nram.alloc((4, 64), x.dtype, "tile")
    first = core.core_id * 4
    count = min(4, 15 - first)
    await core.memcpy(tile[0:count], x[first + 1 : first + 1 + count])
    await core.memcpy(x[first : first + count], tile[0:count])


@fault("task-race", arguments=(InOut(X),))
async def halves_swapped_in_place(core, x):
    if core.is_memory_core:
        return
    tile = core.nram.alloc((4, 64), x.dtype, "tile")
    first, other = core.core_id * 4, (core.core_id + 2) % 4 * 4
    await core.memcpy(tile, x[other : other + 4])
    await core.memcpy(x[first : first + 4], tile)


@fault("swallowed")
async def swallowed_error(core, x, out):
    if core.is_memory_core or core.core_id:
        return
    tile = core.nram.alloc((16, 64), x.dtype, "tile")
    await core.memcpy(tile, x)
    try:
        await core.memcpy(out, tile[0:20])
    except mlusim.MlusimError:
        await core.memcpy(out, tile)


@fault("await")
async def forgotten_await(core, x, out):
    if core.is_memory_core or core.core_id:
        return
    tile = core.nram.alloc((16, 64), x.dtype, "tile")
    core.memcpy(tile, x)
    await core.memcpy(out, tile)


@fault("endless", max_operations=2000)
async def loop_whose_bound_never_comes(core, x, out):
    if core.is_memory_core or core.core_id:
        return
    tile = core.nram.alloc(64, x.dtype, "tile")
    row = 0
    while row != 17:
        await core.memcpy(tile, x[row % 16])
        await core.memcpy(out[row % 16], tile)
        row += 2


@fault("allocation")
async def tile_that_does_not_fit(core, x, out):
    if core.is_memory_core:
        return
    core.nram.alloc((1024, 1024), x.dtype, "tile")


@fault("operand", arguments=(X[:, :50], Output((16, 50))), device="mlu270")
async def ragged_length_on_an_old_board(core, x, out):
    if core.is_memory_core or core.core_id:
        return
    tile = core.nram.alloc((16, 64), x.dtype, "tile")
    for row in range(16):
        await core.memcpy(tile[row, 0:50], x[row])
        core.add(tile[row, 0:50], tile[row, 0:50], 1.0)
        await core.memcpy(out[row], tile[row, 0:50])


@fault("operand", arguments=(X[:, :50], Output((16, 50))), device="mlu270")
async def ragged_buffer_on_an_old_board(core, x, out):
    if core.is_memory_core or core.core_id:
        return
    tile = core.nram.alloc(50, x.dtype, "tile")
    for row in range(16):
        await core.memcpy(tile, x[row])
        core.add(tile, tile, 1.0)
        await core.memcpy(out[row], tile)


@fault("operand", arguments=(X[:10], Output((64, 10))), device="mlu290")
async def ragged_transpose_on_an_old_board(core, x, out):
    if core.is_memory_core or core.core_id:
        return
    tile, turned = core.nram.alloc((10, 64), x.dtype, "tile"), core.nram.alloc((64, 10), x.dtype, "turned")
    await core.memcpy(tile, x)
    core.transpose(turned, tile)
    await core.memcpy(out, turned)


@fault("copy")
async def ragged_copy_from_wram(core, x, out):
    if core.is_memory_core or core.core_id:
        return
    tile, weights = core.nram.alloc(64, x.dtype, "tile"), core.wram.alloc(64, x.dtype, "weights")
    await core.memcpy(tile, x[0])
    await core.memcpy(weights, tile)
    await core.memcpy(out[0, 0:3], weights[0:3])


@fault("copy")
async def copy_to_the_next_element_of_the_same_buffer(core, x, out):
    if core.is_memory_core or core.core_id:
        return
    tile = core.nram.alloc((16, 64), x.dtype, "tile")
    await core.memcpy(tile, x)
    await core.memcpy(tile[1:16], tile[0:15])
    await core.memcpy(out, tile)


@fault("copy", arguments=(InOut(X),))
async def rows_moved_up_by_one_copy_in_gdram(core, x):
    if core.is_memory_core or core.core_id:
        return
    await core.memcpy(x[0:15], x[1:16])


# ---- channels that the board does not have


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


# ---- launches and queues


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
