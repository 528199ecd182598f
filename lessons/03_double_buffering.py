# %% [markdown]
# # 3. Double buffering: three stages
#
# The pipes of a core run in parallel: the IO pipe copies, the vector pipe computes. A blocking kernel uses one at a
# time. With two sets of buffers, a step does three things at once: it stores tile *i - 1*, computes tile *i* and loads
# tile *i + 1*. One sync ends the step. This is also called ping-pong.

# %%
import numpy as np

from mlusim.analysis.breakdown import CAUSES
from mlusim.explore.diff import diff
from mlusim.units import PS_PER_US
from tools import draw_causes, draw_pipes, run, show, table

COUNT, TILE = 1 << 21, 8192
rng = np.random.default_rng(0)
a = rng.standard_normal(COUNT, np.float32)
b = rng.standard_normal(COUNT, np.float32)


async def add_blocking(core, a, b, out):
    if core.is_memory_core:
        return
    left, right = core.nram.alloc(TILE, a.dtype), core.nram.alloc(TILE, a.dtype)
    for start in range(core.task_id * TILE, a.size, core.task_dim * TILE):
        await core.memcpy(left, a[start : start + TILE])
        await core.memcpy(right, b[start : start + TILE])
        core.add(left, left, right)
        await core.memcpy(out[start : start + TILE], left)


async def add_three_stages(core, a, b, out):
    if core.is_memory_core:
        return
    left, right = core.nram.alloc((2, TILE), a.dtype), core.nram.alloc((2, TILE), a.dtype)
    tiles = range(core.task_id * TILE, a.size, core.task_dim * TILE)
    for step in range(len(tiles) + 2):
        if step >= 2:
            start = tiles[step - 2]
            core.memcpy_async(out[start : start + TILE], left[step % 2])
        if step < len(tiles):
            start = tiles[step]
            core.memcpy_async(left[step % 2], a[start : start + TILE])
            core.memcpy_async(right[step % 2], b[start : start + TILE])
        if 1 <= step <= len(tiles):
            core.add(left[(step - 1) % 2], left[(step - 1) % 2], right[(step - 1) % 2])
        await core.sync()


# %% [markdown]
# In each step, the store is issued before the load that reuses its buffer. A pipe executes in order, so the load begins
# when the store is done.

# %%
steps = {}
for name, kernel in (("blocking", add_blocking), ("three stages", add_three_stages)):
    for cores, count in (("1 core", 1), ("32 cores", 32)):
        step = run(kernel, a, b, out=(a.shape, a.dtype), dim=count, kind="BLOCK")
        assert np.array_equal(step.output, a + b)
        steps[f"{name}, {cores}"] = step
table(steps, causes=3)
one, all_cores = (
    steps[f"blocking, {cores}"].result.time_ps / steps[f"three stages, {cores}"].result.time_ps
    for cores in ("1 core", "32 cores")
)
print(f"\nthree stages are {one:.2f} times as fast on one core and {all_cores:.2f} times on all")
assert one > 1.15

# %%
alone = {name: step for name, step in steps.items() if "1 core" in name}
show(draw_pipes(alone, "One core, the first tiles", until_us=25), "03_pipes")

# %% [markdown]
# In the second row, the sum overlaps copies. Only the start-up of the first copy in a step is exposed; the other
# start-ups overlap the copy before them. The IO pipe is busy almost all the time. Loads and stores share it, so no
# schedule of this kind does both at once. `mlusim diff` compares two runs, and names what is saved:

# %%
saved = diff(*(step.result for step in alone.values()))
for cause, time_ps in saved.causes_ps.items():
    if abs(time_ps) > PS_PER_US:
        print(f"{time_ps / PS_PER_US:+8.1f} us  {CAUSES[cause]}")
assert saved.causes_ps["dma_latency"] < 0.9 * saved.time_ps < 0

# %%
show(draw_causes(steps, "Blocking and three stages"), "03_causes")

# %% [markdown]
# On all cores, there is no gain: while one of 32 blocking cores waits, the bus serves the others. Double buffering
# helps most if few cores work or the computation takes long.
#
# ## Exercise
#
# In `lessons/exercises/03_double_buffering.py`, make the copies of a scale kernel overlap its computation.
