"""Kernels in Python, each with a fault of one line."""

from __future__ import annotations

import math


async def wrong_neighbour(core, x, out):
    box = core.sram.alloc((4, x.shape[1]), x.dtype, "box")
    if core.is_memory_core:
        return
    tile = core.nram.alloc(x.shape[1], x.dtype, "tile")
    for row in range(core.core_id, 8, 4):
        await core.memcpy(tile, x[row])
        await core.memcpy(box[core.core_id], tile)
        await core.sync_all_ipu_within_cluster()
        await core.memcpy(tile, box[(core.core_id + 2) % 4])
        await core.memcpy(out[row], tile)
        await core.sync_all_ipu_within_cluster()


async def wrong_plane(core, x, out):
    planes = core.nram.alloc((3, x.shape[1]), x.dtype, "planes")
    acc = core.nram.alloc(x.shape[1], x.dtype, "acc")
    for z in range(8):
        await core.memcpy(planes[z % 3], x[z])
        if z >= 2:
            core.sub(acc, planes[z % 3], planes[(z - 1) % 3])
            await core.memcpy(out[z - 2], acc)


async def wrong_bound(core, x, out):
    tile = core.nram.alloc(x.shape[1], x.dtype, "tile")
    total = core.nram.alloc(x.shape[1], x.dtype, "total")
    core.write_zero(total)
    for row in range(7):
        await core.memcpy(tile, x[row])
        core.add(total, total, tile)
    await core.memcpy(out, total)


async def wrong_size(core, x, out):
    rows = core.nram.alloc((8, x.shape[1]), x.dtype, "rows")
    core.write_zero(rows)
    await core.memcpy(rows[:7], x[:7])
    await core.memcpy(out, rows)


async def no_zeros(core, x, out):
    acc = core.nram.alloc(x.shape[1], x.dtype, "acc")
    tile = core.nram.alloc(x.shape[1], x.dtype, "tile")
    for row in range(8):
        await core.memcpy(tile, x[row])
        if row % 2:
            core.sub(acc, acc, tile)
        else:
            core.write_zero(acc)
            core.add(acc, acc, tile)
        await core.memcpy(out[row], acc)


async def wrong_mode(core, x, out):
    tile = core.nram.alloc(x.shape, x.dtype, "tile")
    short = core.nram.alloc(x.shape, out.dtype, "short")
    await core.memcpy(tile, x)
    core.convert(short, tile, "tz")
    await core.memcpy(out, short)


async def shifted(core, x, out, shift):
    box = core.sram.alloc((4, x.shape[1]), x.dtype, "box")
    if core.is_memory_core:
        return
    tile = core.nram.alloc(x.shape[1], x.dtype, "tile")
    await core.memcpy(tile, x[core.core_id])
    await core.memcpy(box[core.core_id], tile)
    await core.sync_all_ipu_within_cluster()
    await core.memcpy(dst=tile, src=box[(core.core_id + shift) % 4])
    await core.memcpy(out[core.task_id], tile)


class Copier:
    async def copy(self, core, x, out):
        tile = core.nram.alloc(x.shape[1], x.dtype, "tile")
        for row in range(core.task_id, 3, core.task_dim):
            await core.memcpy(dst=tile, src=x[row])
            await core.memcpy(dst=out[row], src=tile)


def rows_of(core):
    return range(core.task_id, 3, core.task_dim)


async def by_helper(core, x, out):
    tile = core.nram.alloc(x.shape[1], x.dtype, "tile")
    for row in rows_of(core):
        await core.memcpy(tile, x[row])
        await core.memcpy(out[row], tile)


async def mirrored(core, x, out):
    if core.is_memory_core:
        return
    tile = core.nram.alloc(x.shape[1], x.dtype, "tile")
    await core.memcpy(tile, x[2 * (3 - core.task_id)])
    await core.memcpy(out[core.task_id], tile)


async def short_copy(core, x, out):
    tile = core.nram.alloc(x.shape, x.dtype, "tile")
    await core.memcpy(tile[:7], x)
    await core.memcpy(out, tile)


async def swapped_index(core, x, out):
    tile = core.nram.alloc(x.shape[1], x.dtype, "tile")
    for row in range(8):
        await core.memcpy(tile, x[0:8, row])
        await core.memcpy(out[row], tile)


async def wrong_id(core, x, out):
    if core.is_memory_core:
        return
    tile = core.nram.alloc(x.shape[1], x.dtype, "tile")
    await core.memcpy(tile, x[core.core_id])
    await core.memcpy(out[core.task_id], tile)


class Adder:
    def __init__(self, core, x):
        self.core, self.tile = core, core.nram.alloc(x.shape[1], x.dtype, "tile")

    async def make(self, x, out, row):
        await self.core.memcpy(self.tile, x[row])
        self.core.sub(self.tile, self.tile, 3.0)
        await self.core.memcpy(out[row], self.tile)


async def by_method(core, x, out):
    adder = Adder(core, x)
    for row in range(8):
        await adder.make(x, out, row)


async def last_of_all(core, x, out):
    tile, total = core.nram.alloc(8, x.dtype, "tile"), 0.0
    await core.memcpy(tile, x[0])
    for column in range(8):
        total = await core.load(tile[column])
    core.store(out[0], total)


async def first_scale(core, x, out):
    tile = core.nram.alloc(8, x.dtype, "tile")
    scales = [2.0 * row for row in range(8)]
    for row in range(8):
        await core.memcpy(tile, x[row])
        core.mul(tile, tile, scales[0])
        await core.memcpy(out[row], tile)


async def first_part(core, x, out):
    tile = core.nram.alloc((8, 4), x.dtype, "tile")
    for begin in range(0, x.shape[1], 4):
        n = min(4, x.shape[1] - begin)
        await core.memcpy(tile[:, :n], x[:, :n])
        await core.memcpy(out[:, begin : begin + n], tile[:, :n])


async def one_slot(core, x, out):
    ring = core.nram.alloc((2, x.shape[1]), x.dtype, "ring")
    await core.memcpy(ring[0], x[0])
    for row in range(8):
        if row < 7:
            await core.memcpy(ring[(row + 1) % 2], x[row + 1])
        core.neg(ring[row % 2], ring[row % 2])
        await core.memcpy(out[row], ring[0])


async def narrow_barrier(core, x, space, out):
    if core.is_memory_core:
        return
    tile, task = core.nram.alloc(8, x.dtype, "tile"), core.task_id
    await core.memcpy(tile, x[task])
    await core.memcpy(space[task], tile)
    await core.sync_all_ipu_within_cluster()
    await core.memcpy(tile, space[(task + 4) % 8])
    await core.memcpy(out[task], tile)


async def first_block(core, x, out):
    tile = core.nram.alloc((2, x.shape[1]), x.dtype, "tile")
    for row in range(7):
        await core.memcpy(tile[0], x[row + 1])
        await core.memcpy(tile[1], x[0])
        core.sub(tile[0], tile[0], tile[1])
        await core.memcpy(out[row], tile[0])


async def no_offset(core, x, out):
    held = core.nram.alloc(4, x.dtype, "held")
    for row in range(8):
        for begin in range(0, 8, 4):
            await core.memcpy(held, x[row, 0:4])
            await core.memcpy(out[row, begin : begin + 4], held)


async def lost_clear(core, x, out):
    tile, acc = (core.nram.alloc(8, x.dtype, name) for name in ("tile", "acc"))
    core.write_zero(acc)
    for half in range(2):
        for row in range(4):
            await core.memcpy(tile, x[4 * half + row])
            core.add(acc, acc, tile)
        await core.memcpy(out[half], acc)


async def no_limit(core, x, out):
    tile = core.nram.alloc((3, x.shape[1]), x.dtype, "tile")
    for first in range(0, 8, 3):
        count = 3
        await core.memcpy(tile[:count], x[first : first + count])
        await core.memcpy(out[first : first + count], tile[:count])


async def loaded_row(core, x, out, index):
    tile = core.nram.alloc(x.shape[1], x.dtype, "tile")
    for place in range(8):
        row = await core.load(index[place])  # noqa: F841 - the fault
        await core.memcpy(tile, x[place])
        await core.memcpy(out[place], tile)


async def number_plus_one(core, x, out):
    tile = core.nram.alloc(8, x.dtype, "tile")
    bounds = [0, 2, 1, 4, 3, 6, 5, 7, math.floor(0.5)]
    for number in range(8):
        await core.memcpy(tile, x[bounds[number] + 1])
        await core.memcpy(out[number], tile)


async def swapped_counters(core, x, out):
    tile = core.nram.alloc((4, 2), x.dtype, "tile")
    for first in range(0, 8, 4):
        for column in range(0, 8, 2):
            await core.memcpy(tile, x[first : first + 4, column : column + 2])
            await core.memcpy(out[column : column + 4, first : first + 2], tile)


async def whole_tile(core, x, out):
    tile, top = core.nram.alloc((4, 8), x.dtype, "tile"), core.nram.alloc(8, x.dtype, "top")
    for first in range(0, 8, 3):
        n = min(3, 8 - first)
        await core.memcpy(tile[:n], x[first : first + n])
        core.max_rows(top, tile)
        await core.memcpy(out[first // 3], top)


async def not_guarded(core, x, out):
    if core.is_memory_core:
        return
    tile = core.nram.alloc(8, x.dtype, "tile")
    await core.memcpy(tile, x[core.task_id])
    await core.memcpy(out[core.task_id], tile)


async def not_renewed(core, x, out):
    tile = core.nram.alloc(8, x.dtype, "tile")
    before = 0.0
    for row in range(8):
        await core.memcpy(tile, x[row])
        value = await core.load(tile[0])  # noqa: F841 - the fault
        core.add(tile, tile, before)
        await core.memcpy(out[row], tile)


async def not_multiplied(core, x, out):
    tile, gain = (core.nram.alloc(8, x.dtype, name) for name in ("tile", "gain"))
    await core.memcpy(gain, x[1])
    for row in range(8):
        await core.memcpy(tile, x[row])
        await core.memcpy(out[row], tile)


async def not_unlocked(core, x, out):
    tile = core.nram.alloc(8, x.dtype, "tile")
    for row in range(2):
        await core.lock(row // 2)
        await core.memcpy(tile, x[row])
        await core.memcpy(out[row], tile)


async def not_set(core, x, out, flags):
    if core.is_memory_core:
        return
    tile, seen = core.nram.alloc(8, x.dtype, "tile"), core.nram.alloc(1, "int32", "seen")
    if core.task_id == 0:
        await core.memcpy(tile, x[0])
        await core.memcpy(out[0], tile)
        return
    while True:
        await core.atomic_add(seen, flags[0:1], 0)
        if await core.load(seen[0]) == 1:
            break
    await core.memcpy(tile, out[0])
    await core.memcpy(out[core.task_id], tile)


async def early_return(core, x, out):
    box = core.sram.alloc(x.shape[1], x.dtype, "box")
    if core.is_memory_core:
        await core.memcpy(box, x[0])
        return
    tile = core.nram.alloc(x.shape[1], x.dtype, "tile")
    await core.sync_cluster()
    await core.memcpy(tile, box)
    await core.memcpy(out[core.core_id], tile)


async def barrier_in_a_branch(core, x, out):
    box = core.sram.alloc((4, x.shape[1]), x.dtype, "box")
    if core.is_memory_core:
        return
    tile = core.nram.alloc(x.shape[1], x.dtype, "tile")
    await core.memcpy(tile, x[core.core_id])
    if core.core_id < 3:
        await core.memcpy(box[core.core_id], tile)
        await core.sync_all_ipu()
    if core.core_id:
        await core.memcpy(tile, box[core.core_id - 1])
    await core.memcpy(out[core.core_id], tile)


async def until_equal(core, x, out):
    first = core.nram.alloc(x.shape[1], x.dtype, "first")
    step = 0
    while step != 8:
        step += 2
    await core.memcpy(first, x[step - 8])
    await core.memcpy(out[0], first)


async def flipped(core, x, out):
    tile, best = core.nram.alloc(8, x.dtype, "tile"), -1.0
    await core.memcpy(tile, x[0])
    for column in range(8):
        value = await core.load(tile[column])
        if value < best:
            best = value
    core.store(out[0], best)


async def not_begun_again(core, x, out):
    tile = core.nram.alloc(8, x.dtype, "tile")
    total = 0.0
    for row in range(8):
        await core.memcpy(tile, x[row])
        for column in range(8):
            total += await core.load(tile[column])
        core.store(out[row], total)


async def short_step(core, x, out):
    if core.is_memory_core:
        return
    total = core.nram.alloc(8, x.dtype, "total")
    row, clusters = core.task_id, core.cluster_dim
    while row < 8:
        await core.memcpy(total, x[row])
        core.add(total, total, total)
        await core.atomic_reduce_add(out, total)
        row += clusters


async def column_of_part(core, x, out):
    part = core.nram.alloc(4, x.dtype, "part")
    for left in range(0, 8, 4):
        await core.memcpy(part, x[0, left : left + 4])
        for column in range(4):
            if await core.load(part[column]) == 5:
                core.store(out[0], column)


async def second_twice(core, x, y, out):
    first, second = (core.nram.alloc(x.shape, x.dtype, name) for name in ("first", "second"))
    await core.memcpy(first, x)
    await core.memcpy(second, x)
    core.sub(first, first, second)
    await core.memcpy(out, first)
