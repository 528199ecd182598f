# %% [markdown]
# # 4. The memory core and SRAM: four and five stages
#
# Every cluster has a fifth core, the memory core, and an SRAM that its four cores share. The memory core cannot
# compute, but it has an IO pipe of its own: it can load large blocks from GDRAM to SRAM while the cores copy parts of
# the previous block from SRAM to NRAM on another pipe, the Move pipe. The vendor's guide describes two such pipelines:
#
# - **four stages**: GDRAM to SRAM, SRAM to NRAM, compute, NRAM to GDRAM;
# - **five stages**: the result also goes back through SRAM, and the memory core stores it.
#
# Each step ends with `sync_cluster`, a barrier of the four cores and the memory core.

# %%
import numpy as np

import mlusim
from tools import draw_causes, draw_pipes, run, show, table

COUNT, TILE = 1 << 21, 8192
rng = np.random.default_rng(0)
a = rng.standard_normal(COUNT, np.float32)
b = rng.standard_normal(COUNT, np.float32)


async def add_three_stages(core, a, b, out):
    if core.is_memory_core:
        return
    left, right = core.nram.alloc((2, TILE), a.dtype), core.nram.alloc((2, TILE), a.dtype)
    tiles = range(core.task_id * TILE, a.size, core.task_dim * TILE)
    for step in range(len(tiles) + 2):
        if step >= 2:
            core.memcpy_async(out[tiles[step - 2] : tiles[step - 2] + TILE], left[step % 2])
        if step < len(tiles):
            core.memcpy_async(left[step % 2], a[tiles[step] : tiles[step] + TILE])
            core.memcpy_async(right[step % 2], b[tiles[step] : tiles[step] + TILE])
        if 1 <= step <= len(tiles):
            core.add(left[(step - 1) % 2], left[(step - 1) % 2], right[(step - 1) % 2])
        await core.sync()


async def add_through_sram(core, a, b, out, stages):
    """A block is four tiles, one for each core of the cluster. In step s, stage k handles block s - k."""
    block = core.core_dim * TILE
    clusters = core.task_dim // core.core_dim
    blocks = range(core.task_id // core.core_dim * block, a.size, clusters * block)
    loaded = core.sram.alloc((2, 2, block), a.dtype, "loaded")  # two buffers for both operands
    results = core.sram.alloc((2, block), a.dtype, "results") if stages == 5 else None
    if not core.is_memory_core:
        mine = slice(core.core_id * TILE, (core.core_id + 1) * TILE)
        # Three buffers: one is loaded, one computed, one stored, on pipes that no sync orders within a step.
        left, right = core.nram.alloc((3, TILE), a.dtype), core.nram.alloc((3, TILE), a.dtype)
    for step in range(len(blocks) + stages - 1):
        live = [0 <= step - stage < len(blocks) for stage in range(5)]
        if core.is_memory_core:
            if live[0]:  # GDRAM to SRAM
                start = blocks[step]
                core.memcpy_async(loaded[step % 2, 0], a[start : start + block])
                core.memcpy_async(loaded[step % 2, 1], b[start : start + block])
            if stages == 5 and live[4]:  # SRAM to GDRAM
                start = blocks[step - 4]
                core.memcpy_async(out[start : start + block], results[(step - 4) % 2])
        else:
            if live[1]:  # SRAM to NRAM
                core.memcpy_async(left[(step - 1) % 3], loaded[(step - 1) % 2, 0, mine])
                core.memcpy_async(right[(step - 1) % 3], loaded[(step - 1) % 2, 1, mine])
            if live[2]:  # compute
                core.add(left[(step - 2) % 3], left[(step - 2) % 3], right[(step - 2) % 3])
            if live[3]:  # NRAM to GDRAM, or to SRAM
                start = blocks[step - 3] + mine.start
                target = results[(step - 3) % 2, mine] if stages == 5 else out[start : start + TILE]
                core.memcpy_async(target, left[(step - 3) % 3])
        await core.sync_cluster()


# %% [markdown]
# First, is it correct? A pipeline over five engines is easily off by one step, and a run with correct results may have
# been lucky. `verify` checks the order that the syncs guarantee, regardless of times.

# %%
small = slice(0, 1 << 18)
for stages in (4, 5):
    report = mlusim.verify(
        add_through_sram, a[small], b[small], mlusim.Output.like(a[small]), stages, reference=lambda a, b: a + b
    )
    print(f"{stages} stages: {'sound' if report.ok else 'not sound'}")
    assert report.ok, report

# %%
steps = {"three stages": run(add_three_stages, a, b, out=(a.shape, a.dtype))}
for name, stages in (("four stages", 4), ("five stages", 5)):
    steps[name] = run(add_through_sram, a, b, out=(a.shape, a.dtype), extra=(stages,))
for step in steps.values():
    assert np.array_equal(step.output, a + b)
table(steps, causes=3)
for name, step in steps.items():
    copies = step.result.metrics.operations["memcpy"]
    print(f"{name}: {copies} copies, {dict(step.result.bytes_requested)}")

# %%
show(draw_pipes(steps, "One core and the memory core of its cluster", until_us=50, units=2), "04_pipes")

# %% [markdown]
# In the lower rows, the memory core's IO pipe does the loads and the cores' IO pipes do the stores, so both directions
# are in flight at once, which is impossible with three stages.

# %%
show(draw_causes(steps, "Three, four and five stages"), "04_causes")
three, four, five = (step.result.time_ps for step in steps.values())
print(f"four stages take {four / three:.2f} and five {five / three:.2f} of the time of three")

# %% [markdown]
# The gain depends on the bottleneck. Here, all cores work, and three stages already keep the DRAM busy, so no change on
# chip makes the kernel faster; mixing reads and writes even slows the DRAM down. A pipeline through SRAM also has a
# barrier in every step, and more steps before its first result and after its last block. It pays off where several
# cores need the same bytes, because SRAM then saves DRAM traffic.
#
# In the next kernels, each of four cores needs all of one operand. Without SRAM, it is loaded from GDRAM four times;
# through SRAM, only once:


# %%
async def read_four_times(core, table, out):
    """Every core of a cluster loads the whole table, part by part, from GDRAM."""
    if core.is_memory_core:
        return
    tile, total = core.nram.alloc(TILE, table.dtype), core.nram.alloc(TILE, table.dtype)
    core.fill(total, 0)
    for start in range(0, table.size, TILE):
        await core.memcpy(tile, table[start : start + TILE])
        core.add(total, total, tile)
        await core.sync()
    await core.memcpy(out[core.task_id], total)


async def read_once(core, table, out):
    """The memory core loads each part to SRAM, and all four cores copy it from there."""
    shared = core.sram.alloc((2, TILE), table.dtype, "shared")
    parts = range(0, table.size, TILE)
    if not core.is_memory_core:
        tile, total = core.nram.alloc(TILE, table.dtype), core.nram.alloc(TILE, table.dtype)
        core.fill(total, 0)
    for step in range(len(parts) + 1):
        if core.is_memory_core:
            if step < len(parts):
                core.memcpy_async(shared[step % 2], table[parts[step] : parts[step] + TILE])
        elif step:
            await core.memcpy(tile, shared[(step - 1) % 2])
            core.add(total, total, tile)
        await core.sync_cluster()
    if not core.is_memory_core:
        await core.memcpy(out[core.task_id], total)


whole = a[: 1 << 19]
shared_steps = {}
for name, kernel in (("each core loads it", read_four_times), ("once, through SRAM", read_once)):
    shared_steps[name] = run(kernel, whole, out=((32, TILE), a.dtype))
    print(f"{name}: DRAM bus, read {shared_steps[name].result.bus_bytes['read'] / 1e6:.1f} MB")
table(shared_steps, causes=3)
first, second = shared_steps.values()
assert np.array_equal(first.output, second.output)
assert second.result.bus_bytes["read"] * 4 == first.result.bus_bytes["read"]
assert second.result.time_ps < first.result.time_ps

# %% [markdown]
# The traffic falls to a quarter. This is the purpose of SRAM.
#
# ## Exercise
#
# In `lessons/exercises/04_sram.py`, four cores load the same table from GDRAM. Let the memory core load it once.
